// First and second moments of y = (x - center) / bound, in float64 (docs/reference/arithmetic.md): products of columns
// j and k <= j, and of column j with a column of ones. A block has a square of products, a thread 4 x 4 of them.
#include "device.h"
#include "rows_at_device.h"
#include "products.h"

struct MomentsWork {
  RowsAtDevice rows;
  const double *center, *bound, *factor;  // factor: 2^15 / bound, for products that are rounded once
  const int64_t* weights;                 // of each row, or null
  int64_t* sums;
  unsigned long long* first_bad;
  int64_t rows_per_block;  // at most 2^20
  int32_t once;            // products are rounded once
};

struct Scaled {
  double left, right;  // what a value is in a product, on its left and right side
};

// Of a place among the columns: 0 is the column of ones, and the others follow.
DEVICE Scaled scaled(const MomentsWork& work, int64_t row, int place, bool* inside) {
  if (place == 0) return {0.0, work.once ? 32768.0 : 1.0};
  const int k = place - 1;
  const double v = __dadd_rn(value_at(work.rows, row, k), -work.center[k]);
  *inside &= fabs(v) <= work.bound[k];
  if (work.once) {
    const double z = odd(__dmul_rn(v, work.factor[k]));
    return {z, z};
  }
  const double y = __ddiv_rn(v, work.bound[k]);
  return {__dmul_rn(1073741824.0, y), y};
}

KERNEL(kProductThreads, 1) add_moments(const MomentsWork work) {
  SHARED double left[kRowsHeld][kSide], right[kRowsHeld][kSide];
  SHARED int64_t weights[kRowsHeld];
  const int d = work.rows.n_features, x = threadIdx.x % 16, y = threadIdx.x / 16;
  int down = 0, across = blockIdx.x;  // squares of the lower triangle, row by row
  for (; across > down; down++) across -= down + 1;
  const int first_j = down * kSide, first_k = across * kSide;
  const int64_t first = blockIdx.y * work.rows_per_block;
  const int64_t last = min(first + work.rows_per_block, work.rows.count);
  double sum[kOwnSide][kOwnSide];
  int64_t whole[kOwnSide][kOwnSide];
  UNROLL for (int r = 0; r < kOwnSide; r++) UNROLL for (int c = 0; c < kOwnSide; c++) sum[r][c] = kStart, whole[r][c] = 0;
  const bool fused = work.once && !work.weights;
  for (int64_t from = first; from < last; from += kRowsHeld) {
    const int held = (int)min((int64_t)kRowsHeld, last - from);
    for (int at = threadIdx.x; at < kRowsHeld * kSide; at += kProductThreads) {
      const int i = at / kSide, column = at % kSide, j = first_j + column, k = first_k + column;
      bool inside = true;
      left[i][column] = i < held && j <= d ? scaled(work, from + i, j, &inside).left : 0.0;
      right[i][column] = i < held && k <= d ? scaled(work, from + i, k, &inside).right : 0.0;
      if (!inside) atomicMin(work.first_bad, (unsigned long long)(from + i));
      if (column == 0) weights[i] = work.weights && i < held ? work.weights[from + i] : 1;
    }
    __syncthreads();
    for (int i = 0; i < held; i++)
      UNROLL for (int r = 0; r < kOwnSide; r++)
        UNROLL for (int c = 0; c < kOwnSide; c++) {
          const double a = left[i][16 * r + y], b = right[i][16 * c + x];
          if (fused)
            sum[r][c] = __fma_rn(a, b, sum[r][c]);
          else
            whole[r][c] += weights[i] * integer_of(work.once ? __fma_rn(a, b, kStart) : __dadd_rn(__dmul_rn(a, b), kStart));
        }
    __syncthreads();
  }
  UNROLL for (int r = 0; r < kOwnSide; r++)
    UNROLL for (int c = 0; c < kOwnSide; c++) {
      const int64_t j = first_j + 16 * r + y, k = first_k + 16 * c + x;
      if (j == 0 || j > d || k > j) continue;
      add_to(work.sums + (k == 0 ? j - 1 : d + (j - 1) * j / 2 + k - 1), fused ? integer_of(sum[r][c]) : whole[r][c]);
    }
}
