// Sums of all columns, cell by cell (docs/reference/arithmetic.md). All numbers before the sums are whole and below
// 2^53, so that float64 adds them up exactly, in any order.
#include "device.h"
#include "rows_at_device.h"

struct CellsWork {
  RowsAtDevice rows;
  const double *middle, *bound, *factor;  // factor: 2^22 / bound
  const double* directions;               // [column][direction]
  const double* points;                   // [direction][cell], times 2
  const double* squares;                  // [cell]: of the points
  double* lengths;                        // [row]: of rows that are divided by them
  int32_t* exponents;                     // [row]: of their largest values
  double* places;                         // [row][direction]
  int32_t* cells;                         // [row]
  const int64_t* weights;                 // of each row, or null
  int64_t* sums;                          // [cell][count, squares, values]
  unsigned long long* first_bad;
  double place_unit, square_unit;  // 2^-shift; what the sum of a row's squares is times
  int32_t n_directions, n_cells, normalize, by_column;  // by_column: squares of each column are kept
};

constexpr int kBlock = 256, kSide = 64, kOwnSide = 4, kDepth = 16;
constexpr int kLanes = 32, kRowsTogether = kBlock / kLanes;  // of measure_rows
constexpr int kRowsSummed = 32;                              // of a block of add_cells
constexpr double kValueUnit = 4194304.0;      // 2^22
constexpr double kLargestPlace = 1048576.0;   // 2^20
constexpr double kFixedPoint = 1073741824.0;  // 2^30
constexpr int kLengthBits = 18;

DEVICE double power_of_two(int exponent) { return __longlong_as_double((long long)(1023 + exponent) << 52); }

DEVICE double times_power_of_two(double x, int exponent) {  // in two steps, as one factor may be out of range
  const int half = exponent / 2;
  return __dmul_rn(__dmul_rn(x, power_of_two(half)), power_of_two(exponent - half));
}

// The e of x = f 2^e, 1/2 <= f < 1; 0 for 0.
DEVICE int exponent_of(double x) {
  if (x == 0.0) return 0;
  const bool small = x < 0x1p-1000;
  const double scaled = small ? __dmul_rn(x, 0x1p100) : x;
  return (int)(__double_as_longlong(scaled) >> 52 & 0x7ff) - 1022 - (small ? 100 : 0);
}

// A row's value before it is divided by its length.
DEVICE double beside_largest(const CellsWork& work, int64_t row, int k, int exponent) {
  return rint(times_power_of_two(value_at(work.rows, row, k), kLengthBits - exponent));
}

DEVICE double whole_value(const CellsWork& work, int64_t row, int k) {
  if (work.normalize)
    return rint(__dmul_rn(__ddiv_rn(beside_largest(work, row, k, work.exponents[row]), work.lengths[row]), kValueUnit));
  return rint(__dmul_rn(__dadd_rn(value_at(work.rows, row, k), -work.middle[k]), work.factor[k]));
}

// Lengths of rows, 32 threads to a row.
KERNEL(kBlock, 1) measure_rows(const CellsWork work) {
  SHARED double found[kRowsTogether][kLanes];
  const int lane = threadIdx.x % kLanes, own = threadIdx.x / kLanes, d = work.rows.n_features;
  const int64_t row = blockIdx.x * (int64_t)kRowsTogether + own;
  const bool there = row < work.rows.count;
  double largest = 0.0;
  for (int k = lane; there && k < d; k += kLanes) {
    const double size = fabs(value_at(work.rows, row, k));
    if (isnan(size) || isinf(size)) atomicMin(work.first_bad, (unsigned long long)row);
    largest = size > largest ? size : largest;
  }
  found[own][lane] = largest;
  __syncthreads();
  for (int i = 0; i < kLanes; i++) largest = found[own][i] > largest ? found[own][i] : largest;
  __syncthreads();
  const int exponent = isinf(largest) ? 0 : exponent_of(largest);
  double square = 0.0;
  for (int k = lane; there && k < d; k += kLanes) {
    const double value = beside_largest(work, row, k, exponent);
    square = __fma_rn(value, value, square);
  }
  found[own][lane] = square;
  __syncthreads();
  if (lane > 0 || !there) return;
  for (int i = 1; i < kLanes; i++) square = __dadd_rn(square, found[own][i]);
  const double length = __dsqrt_rn(square);
  work.lengths[row] = length == 0.0 ? 1.0 : length;
  work.exponents[row] = exponent;
}

// A square of a matrix product: a thread has 4 x 4 of its sums. left and right: [depth][side].
DEVICE void multiply_side(const double (*left)[kSide], const double (*right)[kSide], int depth,
                          double (*sum)[kOwnSide]) {
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
  for (int k = 0; k < depth; k++)
    UNROLL for (int r = 0; r < kOwnSide; r++)
      UNROLL for (int c = 0; c < kOwnSide; c++)
        sum[r][c] = __fma_rn(left[k][16 * r + y], right[k][16 * c + x], sum[r][c]);
}

// Where rows are in the directions, 64 rows and directions to a block.
KERNEL(kBlock, 2) place_rows(const CellsWork work) {
  SHARED double values[kDepth][kSide], directions[kDepth][kSide];
  const int64_t first_row = blockIdx.x * (int64_t)kSide;
  const int first_direction = blockIdx.y * kSide, d = work.rows.n_features, p = work.n_directions;
  const int n_rows = (int)min((int64_t)kSide, work.rows.count - first_row);
  double sum[kOwnSide][kOwnSide];
  UNROLL for (int r = 0; r < kOwnSide; r++) UNROLL for (int c = 0; c < kOwnSide; c++) sum[r][c] = 0.0;
  for (int from = 0; from < d; from += kDepth) {
    const int depth = min(kDepth, d - from);
    for (int at = threadIdx.x; at < kDepth * kSide; at += kBlock) {
      const int row = at / kDepth, k = at % kDepth;
      const bool there = row < n_rows && k < depth;
      values[k][row] = there ? whole_value(work, first_row + row, from + k) : 0.0;
      if (there && !work.normalize && blockIdx.y == 0) {
        const double away = __dadd_rn(value_at(work.rows, first_row + row, from + k), -work.middle[from + k]);
        if (!(fabs(away) <= work.bound[from + k])) atomicMin(work.first_bad, (unsigned long long)(first_row + row));
      }
      const int depth_of = at / kSide, direction = at % kSide;
      directions[depth_of][direction] = depth_of < depth && first_direction + direction < p
                                            ? work.directions[(from + depth_of) * (int64_t)p + first_direction + direction]
                                            : 0.0;
    }
    __syncthreads();
    multiply_side(values, directions, depth, sum);
    __syncthreads();
  }
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
  UNROLL for (int r = 0; r < kOwnSide; r++)
    UNROLL for (int c = 0; c < kOwnSide; c++) {
      const int row = 16 * r + y, direction = first_direction + 16 * c + x;
      if (row >= n_rows || direction >= p) continue;
      const double place = rint(__dmul_rn(sum[r][c], work.place_unit));
      work.places[(first_row + row) * p + direction] =
          place > kLargestPlace ? kLargestPlace : place < -kLargestPlace ? -kLargestPlace : place;
    }
}

// The cell of each row: the first of those of the largest score.
KERNEL(kBlock, 2) find_cells(const CellsWork work) {
  SHARED double places[kDepth][kSide], points[kDepth][kSide], scores[kSide][16];
  SHARED int32_t cells[kSide][16];
  const int64_t first_row = blockIdx.x * (int64_t)kSide;
  const int p = work.n_directions, x = threadIdx.x % 16, y = threadIdx.x / 16;
  const int n_rows = (int)min((int64_t)kSide, work.rows.count - first_row);
  double best[kOwnSide];
  int32_t cell[kOwnSide];
  UNROLL for (int r = 0; r < kOwnSide; r++) best[r] = -0x1p1000, cell[r] = 0;
  for (int first_cell = 0; first_cell < work.n_cells; first_cell += kSide) {
    double sum[kOwnSide][kOwnSide];
    UNROLL for (int c = 0; c < kOwnSide; c++) {
      const int own = first_cell + 16 * c + x;
      UNROLL for (int r = 0; r < kOwnSide; r++) sum[r][c] = own < work.n_cells ? -work.squares[own] : -0x1p1010;
    }
    for (int from = 0; from < p; from += kDepth) {
      const int depth = min(kDepth, p - from);
      for (int at = threadIdx.x; at < kDepth * kSide; at += kBlock) {
        const int row = at / kDepth, k = at % kDepth;
        places[k][row] = row < n_rows && k < depth ? work.places[(first_row + row) * p + from + k] : 0.0;
        const int depth_of = at / kSide, own = at % kSide;
        points[depth_of][own] = depth_of < depth && first_cell + own < work.n_cells
                                    ? work.points[(from + depth_of) * (int64_t)work.n_cells + first_cell + own]
                                    : 0.0;
      }
      __syncthreads();
      multiply_side(places, points, depth, sum);
      __syncthreads();
    }
    UNROLL for (int r = 0; r < kOwnSide; r++)
      UNROLL for (int c = 0; c < kOwnSide; c++)
        if (sum[r][c] > best[r]) best[r] = sum[r][c], cell[r] = first_cell + 16 * c + x;
  }
  UNROLL for (int r = 0; r < kOwnSide; r++) scores[16 * r + y][x] = best[r], cells[16 * r + y][x] = cell[r];
  __syncthreads();
  if (threadIdx.x >= n_rows) return;
  double most = -0x1p1000;
  int32_t found = 0;
  for (int i = 0; i < 16; i++) {
    const double score = scores[threadIdx.x][i];
    const int32_t own = cells[threadIdx.x][i];
    if (score > most || (score == most && own < found)) most = score, found = own;
  }
  work.cells[first_row + threadIdx.x] = found;
}

// What rows add to their cells, some rows to a block, one after the other.
KERNEL(kBlock, 1) add_cells(const CellsWork work) {
  SHARED double squares[kBlock];
  const int d = work.rows.n_features;
  const int64_t width = 1 + d + (work.by_column ? d : 1);
  const int64_t first = blockIdx.x * (int64_t)kRowsSummed, last = min(first + kRowsSummed, work.rows.count);
  for (int64_t row = first; row < last; row++) {
    const int64_t weight = work.weights ? work.weights[row] : 1;
    int64_t* sums = work.sums + work.cells[row] * width;
    double square = 0.0;
    for (int k = threadIdx.x; k < d; k += kBlock) {
      const double value = whole_value(work, row, k);
      add_to(sums + width - d + k, weight * (int64_t)__dmul_rn(value, kFixedPoint / kValueUnit));
      if (work.by_column) {
        const double own = rint(__dmul_rn(__dmul_rn(value, value), kFixedPoint / (kValueUnit * kValueUnit)));
        add_to(sums + 1 + k, weight * (int64_t)own);
      } else {
        const double small = rint(__dmul_rn(value, 0x1p-6));
        square = __fma_rn(small, small, square);
      }
    }
    if (threadIdx.x == 0) add_to(sums, weight * (int64_t)kFixedPoint);
    if (work.by_column) continue;
    squares[threadIdx.x] = square;
    for (int h = kBlock / 2; h > 0; h /= 2) {
      __syncthreads();
      if (threadIdx.x < h) squares[threadIdx.x] = __dadd_rn(squares[threadIdx.x], squares[threadIdx.x + h]);
    }
    if (threadIdx.x == 0) add_to(sums + 1, weight * (int64_t)rint(__dmul_rn(squares[0], work.square_unit)));
    __syncthreads();
  }
}
