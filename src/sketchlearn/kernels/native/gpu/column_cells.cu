// Sums of rows by Voronoi cell in the columns themselves (docs/reference/arithmetic.md): the operations of
// cells_body.h.
#include "device.h"
#include "rows_at_device.h"

struct ColumnCellsWork {
  RowsAtDevice rows;
  const double* center;
  const float *single_center, *scale;
  const float *points, *halves;  // [column][cell]; [cell]
  int32_t* cells;                // [row]
  const int64_t* weights;        // of each row, or null
  const float *places, *factors;  // for medians, of points, [cell][column], and what values are times then; or null
  int64_t* sums;                  // [cell][count, squares, values, and for medians distance, pull, unit vector]
  unsigned long long* first_bad;
  int32_t n_cells, n_shared;  // of the sums, those that a block adds up on its own: all or none
  float radius, distance_unit;
};

constexpr int kBlock = 256, kSide = 64, kOwnSide = 4, kDepth = 16;
constexpr int kRowsSummed = 1024, kMostShared = 4096;  // of a block of add_column_cells
constexpr float kUnit = 4194304.0f, kPullUnit = 0x1p29f;  // kUnit: 2^22

// (x - center) scale, as it is before it would be moved onto the bound.
DEVICE float scaled_value(const ColumnCellsWork& work, int64_t row, int k) {
  const float away = work.rows.kind == kFloat64
                         ? __double2float_rn(__dadd_rn(double_at(work.rows, row, k), -work.center[k]))
                         : __fadd_rn(single_at(work.rows, row, k), -work.single_center[k]);
  return __fmul_rn(away, work.scale[k]);
}

// The cell of each row, 64 rows to a block: the first of those of the least score. Rows beyond the bound are refused.
KERNEL(kBlock, 2) find_column_cells(const ColumnCellsWork work) {
  SHARED float values[kDepth][kSide], points[kDepth][kSide], scores[kSide][16];
  SHARED int32_t cells[kSide][16];
  const int64_t first_row = blockIdx.x * (int64_t)kSide;
  const int d = work.rows.n_features, x = threadIdx.x % 16, y = threadIdx.x / 16;
  const int n_rows = (int)min((int64_t)kSide, work.rows.count - first_row);
  float best[kOwnSide];
  int32_t cell[kOwnSide];
  UNROLL for (int r = 0; r < kOwnSide; r++) best[r] = __uint_as_float(0x7f800000u), cell[r] = 0;
  for (int first_cell = 0; first_cell < work.n_cells; first_cell += kSide) {
    float sum[kOwnSide][kOwnSide];
    UNROLL for (int r = 0; r < kOwnSide; r++) UNROLL for (int c = 0; c < kOwnSide; c++) sum[r][c] = 0.0f;
    for (int from = 0; from < d; from += kDepth) {
      const int depth = min(kDepth, d - from);
      for (int at = threadIdx.x; at < kDepth * kSide; at += kBlock) {
        const int row = at / kDepth, k = at % kDepth;
        const bool there = row < n_rows && k < depth;
        const float value = there ? scaled_value(work, first_row + row, from + k) : 0.0f;
        values[k][row] = value;
        if (there && first_cell == 0 && !(fabsf(value) <= kUnit)) atomicMin(work.first_bad, (unsigned long long)(first_row + row));
        const int depth_of = at / kSide, own = at % kSide;
        points[depth_of][own] = depth_of < depth && first_cell + own < work.n_cells
                                    ? work.points[(from + depth_of) * (int64_t)work.n_cells + first_cell + own]
                                    : 0.0f;
      }
      __syncthreads();
      for (int k = 0; k < depth; k++)
        UNROLL for (int r = 0; r < kOwnSide; r++)
          UNROLL for (int c = 0; c < kOwnSide; c++)
            sum[r][c] = __fmaf_rn(values[k][16 * r + y], points[k][16 * c + x], sum[r][c]);
      __syncthreads();
    }
    UNROLL for (int r = 0; r < kOwnSide; r++)
      UNROLL for (int c = 0; c < kOwnSide; c++) {
        const int own = first_cell + 16 * c + x;
        if (own >= work.n_cells) continue;
        const float score = __fadd_rn(work.halves[own], -sum[r][c]);
        if (score < best[r]) best[r] = score, cell[r] = own;
      }
  }
  UNROLL for (int r = 0; r < kOwnSide; r++) scores[16 * r + y][x] = best[r], cells[16 * r + y][x] = cell[r];
  __syncthreads();
  if (threadIdx.x >= n_rows) return;
  float least = __uint_as_float(0x7f800000u);
  int32_t found = 0;
  for (int i = 0; i < 16; i++) {
    const float score = scores[threadIdx.x][i];
    const int32_t own = cells[threadIdx.x][i];
    if (score < least || (score == least && own < found)) least = score, found = own;
  }
  work.cells[first_row + threadIdx.x] = found;
}

// Where a row lies from the point of its cell, in one column.
DEVICE float way_from_point(const ColumnCellsWork& work, int64_t row, int k) {
  const float place = work.places[work.cells[row] * (int64_t)work.rows.n_features + k];
  return __fmaf_rn(scaled_value(work, row, k), work.factors[k], -place);
}

// What a row adds for the median of its cell.
DEVICE void add_pull(const ColumnCellsWork& work, int64_t row, int64_t* sums) {
  const int d = work.rows.n_features;
  const int64_t weight = work.weights ? work.weights[row] : 1;
  float square = 0.0f;
  for (int k = 0; k < d; k++) {
    const float away = way_from_point(work, row, k);
    square = __fmaf_rn(away, away, square);
  }
  const float distance = __fsqrt_rn(square), inverse = __fdiv_rn(1.0f, distance > work.radius ? distance : work.radius);
  add_to(sums, weight * (int64_t)__float2int_rn(__fmul_rn(distance, work.distance_unit)));
  add_to(sums + 1, weight * (int64_t)__float2int_rn(__fmul_rn(__fmul_rn(work.radius, inverse), kPullUnit)));
  for (int k = 0; k < d; k++) {
    const float towards = __fmul_rn(way_from_point(work, row, k), inverse);
    add_to(sums + 2 + k, weight * (int64_t)__float2int_rn(__fmul_rn(towards, kPullUnit)));
  }
}

// What rows add to their cells, many rows to a block: on its own first, where the sums of all cells have room.
KERNEL(kBlock, 1) add_column_cells(const ColumnCellsWork work) {
  SHARED int64_t own[kMostShared];
  const int d = work.rows.n_features, n_moments = 1 + 2 * d, width = work.places ? n_moments + 2 + d : n_moments;
  int64_t* const sums = work.n_shared ? own : work.sums;
  for (int i = threadIdx.x; i < work.n_shared; i += kBlock) own[i] = 0;
  __syncthreads();
  const int64_t first = blockIdx.x * (int64_t)kRowsSummed, last = min(first + kRowsSummed, work.rows.count);
  for (int64_t at = threadIdx.x; at < (last - first) * d; at += kBlock) {
    const int64_t row = first + at / d;
    const int k = (int)(at % d);
    const int64_t weight = work.weights ? work.weights[row] : 1;
    int64_t* cell = sums + work.cells[row] * (int64_t)width;
    const float value = scaled_value(work, row, k), small = __fmul_rn(value, 0x1p-7f);
    if (k == 0) add_to(cell, weight << 30);
    add_to(cell + 1 + k, weight * (int64_t)__float2int_rn(__fmul_rn(small, small)));
    add_to(cell + 1 + d + k, weight * (int64_t)__float2int_rn(__fmul_rn(value, 256.0f)));
  }
  for (int64_t row = first + threadIdx.x; work.places && row < last; row += kBlock)
    add_pull(work, row, sums + work.cells[row] * (int64_t)width + n_moments);
  __syncthreads();
  for (int i = threadIdx.x; i < work.n_shared; i += kBlock)
    if (own[i]) add_to(work.sums + i, own[i]);
}
