// What one instruction set offers: a table of functions over blocks of packed rows.
#pragma once
#include <cstdint>
#include <utility>

namespace sketchlearn {

// What a phase becomes. The names are those that Python uses.
enum class Feature : int {
  exponential, cosine, square, square_real, sawtooth, sawtooth_real, triangle, triangle_real, series, series_real, quadratic,
  quantized_cosine, quantized_cosine_real, quantized_sawtooth, quantized_sawtooth_real,
};
constexpr const char* kFeatureNames[] = {
    "exponential",   "cosine",      "square",        "square_real", "sawtooth",  "sawtooth_real",
    "triangle",      "triangle_real", "series",      "series_real", "quadratic",
    "quantized_cosine", "quantized_cosine_real", "quantized_sawtooth", "quantized_sawtooth_real",
};

// Integers per feature: 2 for the complex waves.
constexpr int parts_of(Feature feature) {
  return feature == Feature::exponential || feature == Feature::square || feature == Feature::sawtooth ||
                 feature == Feature::triangle || feature == Feature::series || feature == Feature::quantized_cosine ||
                 feature == Feature::quantized_sawtooth
             ? 2
             : 1;
}

// Fourier coefficients of a wave given by them: (a_1, b_1, a_2, b_2, ...) of each part, times 2^20. A quantized wave has one,
// its number of bits.
struct Coefficients {
  const float* values = nullptr;
  int64_t harmonics = 0;
};

// Where the integers of a block go: added up into `sums`, with `weights` if there are any, and the first `row_columns` of
// them written row by row to `rows`. Column j of part p is found at offset p * part_stride + j, or p * row_part_stride + j.
struct Sink {
  int64_t* sums = nullptr;
  const int64_t* weights = nullptr;
  int64_t part_stride = 0;
  int32_t* rows = nullptr;
  int64_t row_stride = 0, row_part_stride = 0, row_columns = 0;
};

struct Block {
  const float* rows;  // centred; panels of tile_rows rows (dense), or row by row (structured)
  int count;          // at most kBlockRows
  int64_t n_features;
};

struct DenseFrequencies {
  const float* panels;  // [panel][feature][tile_columns], in turns, zero beyond n_columns
  const float* dither;  // one per column, zero padded like the panels
  int64_t n_columns;
};

struct StructuredFrequencies {
  const float* signs;   // [block][3][size]
  const float* radii;   // [block][size], in turns, over the length that the transforms give
  const float* dither;  // [block][size]
  int64_t size, n_columns;
};

// Components alpha exp(i omega . c - psi), psi = sum_k shape_k quadratic_k(omega), against a target at m frequencies.
struct Comparison {
  const float *turns, *shifts;           // [d][m] in turns; [m] in turns, or null
  const float* quadratics;               // [q][m]
  const float *values, *counts;          // [2][m]: the target's parts, and how much they count. No values: see `compare`
  const float *weights, *locations, *shapes;  // [n], [n][d], [n or 1][q]
  int64_t n_frequencies, n_features, n_shape, n_components;
  bool tied;  // one shape for all components
};
constexpr int64_t kTile = 64;  // frequencies whose waves stay in the cache

// Rows of signs: bit j of a row, from the low end of its words, is 1 for +1.
struct BitRows {
  const uint64_t* words;
  int64_t count, width;  // width: words per row
};

// Records whose features and values are multiplied: features in panels of cross_rows, [panel][record][cross_rows], and one
// panel of values, [record][cross_columns].
struct CrossBlock {
  const double *features, *values;
  int64_t count, n_rows;   // of records, at most kCrossBlock; of features, whole panels
  const int64_t* weights;  // of the records, or null
};

// Columns of some records, as they lie in memory (strides in elements), what is subtracted, how far they may be from that,
// and what they are multiplied by then. The last bit of each product that is not zero is set: a product of two of them is
// zero or an odd multiple of a power of two that is at most 2^-22, never half-way between integers.
struct OddValues {
  const void* data;
  bool is_double;
  int64_t count, width, row_stride, column_stride;
  const double *center, *bound, *factor;
};

// Rows to be hashed (strides in elements), what their distances are measured from and in, and where both go.
struct HashTile {
  const void* rows;
  bool is_double;
  int64_t n_features, row_stride, column_stride;
  const double *center, *scale;
  uint64_t key;
  uint64_t* hashes;
  double* squares;
};
constexpr uint64_t kHashFactor = 0x9e3779b97f4a7c15u;
constexpr int kHashShift = 29;
constexpr uint64_t kHashEnds[2] = {0xff51afd7ed558ccdu, 0xc4ceb9fe1a85ec53u};  // after the last column
constexpr int kHashEndShift = 33;

constexpr double kOddUnit = 0x1p15;         // what a column's bound becomes in OddValues: a product is 2^30 at most
constexpr int kCrossBlock = 256;            // records whose features and values are multiplied at a time
constexpr int kCrossPanels = 8;             // panels of values at a time, so that much of a row is read at once
constexpr int kBlockRows = 192;             // a multiple of every tile's rows
constexpr int kStructuredRows = 8;          // rows that a structured block takes through its transforms at a time
constexpr int64_t kMomentsPadding = 8;      // columns of moments come in multiples of this
constexpr int64_t kSmallestTransform = 32;  // a structured block has at least this size

// Rows that are put into cells (strides in elements), what is subtracted, in their own precision, and what they are times
// then: their bound becomes kCellUnit. center and scale are readable up to whole vectors, with zeros there.
struct CellRows {
  const void* data;
  bool is_double;
  int64_t n_features, row_stride, column_stride;
  const double* center_double;
  const float *center_float, *scale;
};
constexpr float kCellUnit = 0x1p22f, kCellSquareUnit = 0x1p-7f;  // squares of values in steps of 2^-15: 2^30 at most
constexpr int kRowClipped = 1, kRowBad = 2;

// The points of cells, in panels, and what products with them are subtracted from; infinite beyond the last one. depth: of
// columns, what the loops read at once, or a multiple.
template <class S>
struct CellPoints {
  const S *panels, *halves;
  int64_t n_padded, depth;
};

// The point of a cell whose median is looked for: rows away from it are `factors` times their values less `place`, which are
// readable up to whole vectors, with zeros there. Rows nearer than `radius` count as if they lay that far.
struct MedianPoint {
  const float *factors, *place;
  float radius, distance_unit;
};
constexpr float kPullUnit = 0x1p29f;  // of a unit vector's length

// Centers times -1, [n][d], and half their squares, infinite beyond the last one; n_padded: a multiple of 4.
template <class S>
struct CenterList {
  const S *negative, *halves;
  int64_t n_padded;
};
constexpr int kMostCandidates = 8;  // of a starting point

// Steps of k-means on rows in tiles, [tile][column][tile_rows]: kmeans_body.h
template <class S>
struct KMeansLoops {
  int tile_rows;
  // Labels, half the squared distances less half the rows' own squares, and the same of the next nearest centers, or null
  void (*nearest)(const S* x, int64_t n_tiles, int64_t d, const CenterList<S>&, int32_t* labels, S* least, S* second);
  void (*add_candidate_costs)(const S* x, int64_t n_tiles, int64_t d, const CenterList<S>&, const S* lengths, const S* squares,
                              const S* weights, double* totals);
  void (*lower_squares)(const S* x, int64_t n_tiles, int64_t d, const CenterList<S>& point, const S* lengths, S* squares);
  // rows: [row][stride]; sums: [cluster][stride], of whole vectors
  void (*add)(const S* rows, int64_t count, int64_t stride, const int32_t* labels, const S* weights, double* sums);
};

// Components of a mixture of Gaussians, [component][2 + d + squares()]: the logarithm of a component's weight times density is
// the first number and the second times the squared length of c + G v; c; G, a diagonal or the rows of a lower triangle.
struct GaussianParts {
  const float* numbers;
  int64_t count, n_features;
  bool full;
  constexpr int64_t squares() const { return full ? n_features * (n_features + 1) / 2 : n_features; }
};
constexpr float kShareUnit = 0x1p22f, kLogUnit = 0x1p10f;    // of a responsibility of 1, and of a nat
constexpr float kMostSquare = 0.999f, kMostLength = 0.9995f;  // rows farther away are moved to this length

// Where a column of a panel begins, and how far its numbers are apart.
struct PanelColumn {
  int64_t first, step;
};

// Rows that become whole numbers (strides in elements): what is subtracted, how far they may be from that, and what they are
// times then, of kWholePadding columns or a multiple; or rows that are divided by their length.
struct WholeRows {
  const void* data;
  bool is_double;
  int64_t n_features, row_stride, column_stride;
  const double *center, *bound, *factor;
  bool normalize;
};
constexpr double kWholeUnit = 0x1p22, kLargestPlace = 0x1p20;
constexpr int64_t kWholePadding = 8;  // columns come in multiples of this
constexpr int kRowRefused = 4;        // a value is beyond kWholeUnit, where it is not clipped

// Directions in panels, and what products with them are times before they are rounded.
struct PlacePanels {
  const double* panels;
  int64_t n_padded;
  double unit;
};

struct Kernel {
  const char* name;
  int tile_rows, tile_columns;
  // scratch: kBlockRows * tile_columns floats
  void (*dense)(const Block&, const DenseFrequencies&, Feature, const Coefficients&, const Sink&, float* scratch);
  // scratch: kStructuredRows * size floats
  void (*structured)(const Block&, const StructuredFrequencies&, Feature, const Coefficients&, const Sink&, float* scratch);
  // rows: y in [-1, 1], row by row, `stride` apart, which is d or more in whole kMomentsPaddings, with zeros beyond d;
  // sums: d first moments, then the lower triangle of the second ones, times 2^30
  void (*moments)(const double* rows, int64_t count, int64_t stride, int64_t d, const int64_t* weights, int64_t* sums);
  // Values row by row, `stride` apart, and then kOddUnit; returns the first record with one beyond its bound, or -1.
  int64_t (*odd_rows)(const OddValues&, int64_t stride, double* out);
  // The same as `moments`, products rounded once, of what odd_rows writes
  void (*fused_moments)(const double* rows, int64_t count, int64_t stride, int64_t d, const int64_t* weights, int64_t* sums);
  int cross_rows, cross_columns;
  // Values in panels of cross_columns; returns the first record with one beyond its bound, or -1.
  int64_t (*cross_values)(const OddValues&, double* panels);
  // Adds up features times values over records into sums[feature][cross_columns], each product rounded to an integer.
  void (*cross)(const CrossBlock&, int64_t* sums);
  // exp(-exponent) cos(2 pi phase) and exp(-exponent) sin(2 pi phase) of `count` phases; no exponents mean zeros
  void (*waves)(const float* phases, const float* exponents, int64_t count, float* cosines, float* sines);
  int64_t (*comparison_space)(const Comparison&);  // floats that `compare` needs
  // Sums over frequencies [from, to), for r = model - value and f = count * r (f = count where there are no values):
  // sum of r f; by component, sum of b = Re(conj(f) wave); by component and coordinate, sum of Im(f conj(wave)) turns; by
  // shape's parameter, sum of b quadratic (b summed with weights alpha if tied). A wave is damped, its weight left out.
  void (*compare)(const Comparison&, int64_t from, int64_t to, float* space, double* sums);
  int sum_columns, table_floats;
  // Inner products of rows of signs: out[r * stride + c] of a's row r and b's row c.
  void (*bit_products)(const BitRows& a, const BitRows& b, int64_t n_bits, int32_t* out, int64_t stride);
  // sums[row][column] of +-weights[bit][column], of sum_columns columns; weights are zero beyond the row's bits, up to
  // 8 * bytes of them; tables: table_floats
  void (*signed_sums)(const BitRows& bits, int64_t bytes, const float* weights, float* tables, float* sums);
  // The same of one row and any number of columns, without tables; weights are `stride` apart from bit to bit.
  void (*signed_row)(const uint64_t* row, int64_t n_bits, const float* weights, int64_t stride, int64_t columns, float* sums);
  int hash_rows;  // of a tile, or 0 where it does not pay
  void (*hash_tile)(const HashTile&);
  int cell_rows, cell_lanes;  // rows are read, and float32 padded, in multiples of these; float64 in half as many
  int columns_at_once;        // that products read of float32; half as many of float64
  // The first of the nearest points to at most kBlockRows rows, [row][stride], with room for whole tiles
  void (*find_cells)(const float* values, int64_t count, int64_t stride, const CellPoints<float>&, int32_t* labels);
  void (*find_double_cells)(const double* values, int64_t count, int64_t stride, const CellPoints<double>&, int32_t* labels);
  KMeansLoops<float> kmeans_float;
  KMeansLoops<double> kmeans_double;
  int (*read_bounded_row)(const CellRows&, int64_t row, float* out);
  PanelColumn (*panel_column)(int64_t column, int64_t lanes, int64_t n_padded, int64_t depth);
  // Adds some rows to the sums of their cell, with their weights, if there are any. values: [row][stride], whole vectors
  void (*add_to_cell)(const float* values, int64_t stride, const int32_t* rows, int64_t count, int64_t d, const int64_t* weights,
                      int64_t* sums);
  // Adds the distances of some rows of a cell, what a step towards their median weighs them with, and that times the way to them
  void (*add_pulls_to_cell)(const float* values, int64_t stride, const int32_t* rows, int64_t count, int64_t d,
                            const MedianPoint&, const int64_t* weights, int64_t* sums);
  // values: [column][kBlockRows], finite beyond `count`; space: (2 n + 2 d + 4) kBlockRows floats; odd: marks rows that are moved.
  // sums: the log-likelihood, and then [component][1 + d + squares()]
  void (*expect)(const float* values, int64_t count, const GaussianParts&, const int64_t* weights, float* space, uint8_t* odd,
                 int64_t* sums);
  int (*read_whole_row)(const WholeRows&, int64_t row, double* out);  // out: up to a multiple of kWholePadding
  // values: [row][stride]; places: [row][n_padded]; both have room for whole tiles of rows
  void (*find_places)(const double* values, int64_t count, int64_t stride, const PlacePanels&, double* places);
  // The same of whole numbers. Squares: of each column, or their mean alone.
  void (*add_whole_rows)(const double* values, int64_t stride, const int32_t* rows, int64_t count, int64_t d, bool by_column,
                         const int64_t* weights, int64_t* sums);
};

const Kernel* portable_kernel();
const Kernel* neon_kernel();
const Kernel* avx2_kernel();
const Kernel* avx512_kernel();

}  // namespace sketchlearn
