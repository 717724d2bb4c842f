// The loops, written once; each instruction set's file includes this after simd.h and waves.h.

constexpr int kColumns = kTileVectors * kLanes;
static_assert(kBlockRows % kTileRows == 0 && kBlockRows <= 1024, "blocks of whole tiles, and sums that 32 bits hold");
static_assert(kTileVectors % kChains == 0 && kPack <= kSmallestTransform, "whole packs");
#if defined(SKETCHLEARN_NEON)
constexpr bool kFirstByProduct = true;  // sums start as products: setting them to zero takes a vector unit's time
#else
constexpr bool kFirstByProduct = false;
#endif
constexpr int64_t kDepth = 192;  // features per pass over a panel, so that its part stays in the first cache

// sum[r][v] (+)= x[r] * panel[v] for one column of tile rows, in the order that suits the machine's registers.
#if defined(SKETCHLEARN_NEON)
template <bool First, int... R>
inline void multiply_column(const float* x, const float* panel, Vector (*sum)[kTileVectors],
                            std::integer_sequence<int, R...>) {
  static_assert(kTileRows == kLanes, "one vector of rows: fmla takes its scalar from a lane");
  const float32x4_t lanes = vld1q_f32(x);
#pragma GCC unroll 8
  for (int v = 0; v < kTileVectors; v++) {
    const float32x4_t w = (float32x4_t)load(panel + v * kLanes);
    ((sum[R][v] = First ? (Vector)vmulq_laneq_f32(w, lanes, R)
                        : (Vector)vfmaq_laneq_f32((float32x4_t)sum[R][v], w, lanes, R)), ...);
  }
}
#else
template <bool First, int... R>
inline void multiply_column(const float* x, const float* panel, Vector (*sum)[kTileVectors],
                            std::integer_sequence<int, R...>) {
  Vector w[kTileVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kTileVectors; v++) w[v] = load(panel + v * kLanes);
  const auto multiply_row = [&](int r) {
#pragma GCC unroll 8
    for (int v = 0; v < kTileVectors; v++) sum[r][v] = First ? w[v] * x[r] : fma(all(x[r]), w[v], sum[r][v]);
  };
  (multiply_row(R), ...);
}
#endif

// tile[r][c] (+)= sum over k of rows[k][r] * panel[k][c], each as one chain of fused multiply-adds, k ascending.
template <bool First>
__attribute__((noinline)) void multiply(const float* rows, const float* panel, int64_t depth, float* tile) {
  constexpr auto every_row = std::make_integer_sequence<int, kTileRows>{};
  if (depth < 1) __builtin_unreachable();  // or the compiler saves all sums around an empty loop
  Vector sum[kTileRows][kTileVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; r++)
#pragma GCC unroll 8
    for (int v = 0; v < kTileVectors; v++) sum[r][v] = First ? Vector{} : load(tile + r * kColumns + v * kLanes);
  int64_t k = 0;
  if (First && kFirstByProduct) multiply_column<true>(rows, panel, sum, every_row), k = 1;
  for (; k < depth; k++) multiply_column<false>(rows + k * kTileRows, panel + k * kColumns, sum, every_row);
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; r++)
#pragma GCC unroll 8
    for (int v = 0; v < kTileVectors; v++) store(tile + r * kColumns + v * kLanes, sum[r][v]);
}

// Sums one pack of columns over `count` rows of phases: a function of its own, for the registers' sake.
template <class Wave>
__attribute__((noinline)) void total(const float* phases, int64_t stride, int count, const float* dither,
                                     const Series& series, int32_t (*part)[kPack]) {
  Total<Wave> sum;
  float shift[kPack];
  for (int i = 0; i < kPack; i++) shift[i] = dither[i] * Wave::unit;
  for (int r = 0; r < count; r++, phases += stride)
    sum.add(Wave::shifted(load_pack(phases), load_pack(forget(shift))), series);
  sum.finish(count, part);
}

// The integers of each row of one pack, written out or added up with its weight.
template <class Wave>
void visit(const float* phases, int64_t stride, int count, const float* dither, const Series& series, int64_t column,
           int64_t live, const Sink& sink) {
  int32_t part[kPack];
  for (int r = 0; r < count; r++, phases += stride) {
    Bits values[2]{};
    Wave::eval(Wave::shifted(load_pack(phases), load_pack(dither) * Wave::unit), Addends(), series, values[0], values[1]);
    for (int q = 0; q < Wave::parts; q++) {
      store(part, values[q] - Wave::bias);
      const int64_t at = q * sink.part_stride + column;
      if (sink.rows)
        for (int64_t i = 0; i < live; i++) sink.rows[r * sink.row_stride + at + i] = part[i];
      else
        for (int64_t i = 0; i < live; i++) sink.sums[at + i] += sink.weights[r] * part[i];
    }
  }
}

// Applies the wave to `count` rows of phases and hands the integers of `width` columns, from `column` on, to the sink.
// Phases and dither are readable up to the next whole pack.
template <class Wave>
inline void consume(const float* phases, int64_t stride, int count, int64_t column, int64_t width, const float* dither,
                    const Series& series, const Sink& sink) {
  for (int64_t c = 0; c < width; c += kPack) {
    const int64_t live = width - c < kPack ? width - c : kPack;
    if (sink.rows || sink.weights) {
      visit<Wave>(phases + c, stride, count, dither + c, series, column + c, live, sink);
      continue;
    }
    int32_t part[Wave::parts][kPack];
    total<Wave>(phases + c, stride, count, dither + c, series, part);
    for (int q = 0; q < Wave::parts; q++)
      for (int64_t i = 0; i < live; i++) sink.sums[q * sink.part_stride + column + c + i] += part[q][i];
  }
}

template <class Wave>
void dense_block(const Block& block, const DenseWeights& weights, const Series& series, const Sink& sink, float* tile) {
  const int64_t d = block.n_features;
  for (int64_t column = 0; column < weights.n_columns; column += kColumns) {
    const float* panel = weights.panels + column * d;
    for (int64_t k = 0; k < d; k += kDepth) {
      const int64_t depth = d - k < kDepth ? d - k : kDepth;
      for (int r = 0; r < block.count; r += kTileRows)
        (k ? multiply<false> : multiply<true>)(block.rows + r * d + k * kTileRows, panel + k * kColumns, depth,
                                               tile + r * kColumns);
    }
    const int64_t width = weights.n_columns - column < kColumns ? weights.n_columns - column : kColumns;
    consume<Wave>(tile, kColumns, block.count, column, width, weights.dither + column, series, sink);
  }
}

template <int H>
inline void short_butterflies(float* y, int64_t size) {
  Vector sign{};
  for (int i = 0; i < kLanes; i++) sign[i] = i & H ? -1.0f : 1.0f;
  for (int64_t i = 0; i < size; i += kLanes) {
    const Vector v = load(y + i);
    store(y + i, partner<H>(v) + v * sign);
  }
}

// The unnormalised Walsh-Hadamard transform: stages 1, 2, 4, ..., each pair (a, b) becoming (a + b, a - b).
inline void hadamard(float* y, int64_t size) {
  short_butterflies<1>(y, size);
  short_butterflies<2>(y, size);
  if (kLanes > 4) short_butterflies<4 % kLanes>(y, size);
  if (kLanes > 8) short_butterflies<8 % kLanes>(y, size);
  for (int64_t h = kLanes; h < size; h *= 2)
    for (int64_t i = 0; i < size; i += 2 * h)
      for (int64_t j = i; j < i + h; j += kLanes) {
        const Vector a = load(y + j), b = load(y + j + h);
        store(y + j, a + b);
        store(y + j + h, a - b);
      }
}

template <class Wave>
void structured_block(const Block& block, const StructuredWeights& weights, const Series& series, const Sink& sink,
                      float* phases) {
  const int64_t size = weights.size, d = block.n_features;
  for (int from = 0; from < block.count; from += kStructuredRows) {
    const int count = block.count - from < kStructuredRows ? block.count - from : kStructuredRows;
    Sink part = sink;
    if (part.weights) part.weights += from;
    if (part.rows) part.rows += from * part.row_stride;
    for (int64_t column = 0; column < weights.n_columns; column += size) {
      const float* signs = weights.signs + 3 * column;
      for (int r = 0; r < count; r++) {
        float* y = phases + r * size;
        const float* x = block.rows + (from + r) * d;
        for (int64_t i = 0; i < d; i++) y[i] = x[i] * signs[i];
        for (int64_t i = d; i < size; i++) y[i] = 0.0f;
        hadamard(y, size);
        for (int64_t i = 0; i < size; i++) y[i] *= signs[size + i];
        hadamard(y, size);
        for (int64_t i = 0; i < size; i++) y[i] *= signs[2 * size + i];
        hadamard(y, size);
        for (int64_t i = 0; i < size; i++) y[i] *= weights.radii[column + i];
      }
      const int64_t width = weights.n_columns - column < size ? weights.n_columns - column : size;
      consume<Wave>(phases, size, count, column, width, weights.dither + column, series, part);
    }
  }
}

// Products in float64, rounded to integers one record at a time.
inline void moments(const double* rows, int64_t count, int64_t d, const int64_t* weights, int64_t* sums) {
  constexpr double scale = 1073741824.0, round = 6755399441055744.0;  // 2^30; 1.5 * 2^52 rounds to an integer
  constexpr int64_t bias = 0x4338000000000000;                       // its bits
  for (int64_t r = 0; r < count; r++) {
    const double* y = rows + r * d;
    const int64_t weight = weights ? weights[r] : 1;
    int64_t* out = sums;
    for (int64_t j = -1; j < d; j++) {
      const double a = j < 0 ? scale : y[j] * scale;
      const int64_t length = j < 0 ? d : j + 1;
      for (int64_t k = 0; k < length; k++) {
        const double product = a * y[k];
        const double rounded = product + round;
        int64_t integer;
        __builtin_memcpy(&integer, &rounded, sizeof integer);
        out[k] += weight * (integer - bias);
      }
      out += length;
    }
  }
}

template <template <class> class Run, class... Args>
inline void with_wave(Wave wave, Args&... args) {
  switch (wave) {
    case Wave::exponential: return Run<Exponential<2>>::run(args...);
    case Wave::cosine: return Run<Exponential<1>>::run(args...);
    case Wave::square: return Run<Square<2>>::run(args...);
    case Wave::square_real: return Run<Square<1>>::run(args...);
    case Wave::sawtooth: return Run<Sawtooth<2>>::run(args...);
    case Wave::sawtooth_real: return Run<Sawtooth<1>>::run(args...);
    case Wave::triangle: return Run<Triangle<2>>::run(args...);
    case Wave::triangle_real: return Run<Triangle<1>>::run(args...);
    case Wave::harmonics: return Run<Harmonics<2>>::run(args...);
    case Wave::harmonics_real: return Run<Harmonics<1>>::run(args...);
    case Wave::quadratic: return Run<Quadratic>::run(args...);
    case Wave::phase: return Run<Phase>::run(args...);
  }
}

template <class W>
struct RunDense {
  static void run(const Block& b, const DenseWeights& w, const Series& s, const Sink& k, float*& scratch) {
    dense_block<W>(b, w, s, k, scratch);
  }
};
template <class W>
struct RunStructured {
  static void run(const Block& b, const StructuredWeights& w, const Series& s, const Sink& k, float*& scratch) {
    structured_block<W>(b, w, s, k, scratch);
  }
};
template <class W>
struct CountParts {
  static void run(int& parts) { parts = W::parts; }
};

void run_dense(const Block& b, const DenseWeights& w, Wave wave, const Series& s, const Sink& k, float* scratch) {
  with_wave<RunDense>(wave, b, w, s, k, scratch);
}
void run_structured(const Block& b, const StructuredWeights& w, Wave wave, const Series& s, const Sink& k,
                    float* scratch) {
  with_wave<RunStructured>(wave, b, w, s, k, scratch);
}
int count_parts(Wave wave) {
  int parts = 0;
  with_wave<CountParts>(wave, parts);
  return parts;
}

constexpr Kernel make_kernel(const char* name) {
  return {name, kTileRows, kColumns, count_parts, run_dense, run_structured, moments};
}
