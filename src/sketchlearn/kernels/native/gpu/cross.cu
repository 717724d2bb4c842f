// What is made of the features that write_features wrote: products with values, bits packed into words, and features beside
// values.
#include "device.h"
#include "rows_at_device.h"
#include "products.h"

struct CrossWork {
  RowsAtDevice rows;
  const int32_t* integers;  // [row][feature]
  const int64_t* which;     // columns that are values; null: all
  const double *center, *bound, *factor;  // factor: 2^15 / bound
  const int64_t* weights;                 // of each row, or null
  int64_t* sums;                          // [feature][value]
  uint64_t* words;                        // [row][word]: of pack_bits
  double* joined;                         // [row][features, then values]: of join_rows
  unsigned long long* first_bad;
  double unit;  // what an integer is times
  int64_t rows_per_block;  // at most 2^20
  int32_t n_features, n_values, n_bits;
};

DEVICE int column_of(const CrossWork& work, int value) { return work.which ? (int)work.which[value] : value; }

// A value as it is multiplied: 2^15 / bound of it.
DEVICE double odd_value(const CrossWork& work, int64_t row, int value, bool* inside) {
  const double v = __dadd_rn(value_at(work.rows, row, column_of(work, value)), -work.center[value]);
  *inside &= fabs(v) <= work.bound[value];
  return odd(__dmul_rn(v, work.factor[value]));
}

// A block has a square of products, a thread 4 x 4 of them; each is rounded once, by the sum that it is added to.
KERNEL(kProductThreads, 1) add_crosses(const CrossWork work) {
  SHARED double features[kRowsHeld][kSide], values[kRowsHeld][kSide];
  SHARED int64_t weights[kRowsHeld];
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
  const int across = (work.n_values + kSide - 1) / kSide;
  const int first_feature = (int)blockIdx.x / across * kSide, first_value = (int)blockIdx.x % across * kSide;
  const int64_t first = blockIdx.y * work.rows_per_block;
  const int64_t last = min(first + work.rows_per_block, work.rows.count);
  double sum[kOwnSide][kOwnSide];
  int64_t whole[kOwnSide][kOwnSide];
  UNROLL for (int r = 0; r < kOwnSide; r++) UNROLL for (int c = 0; c < kOwnSide; c++) sum[r][c] = kStart, whole[r][c] = 0;
  for (int64_t from = first; from < last; from += kRowsHeld) {
    const int held = (int)min((int64_t)kRowsHeld, last - from);
    for (int at = threadIdx.x; at < kRowsHeld * kSide; at += kProductThreads) {
      const int i = at / kSide, column = at % kSide, f = first_feature + column, v = first_value + column;
      bool inside = true;
      features[i][column] =
          i < held && f < work.n_features ? __dmul_rn(work.integers[(from + i) * work.n_features + f], work.unit) : 0.0;
      values[i][column] = i < held && v < work.n_values ? odd_value(work, from + i, v, &inside) : 0.0;
      if (!inside) atomicMin(work.first_bad, (unsigned long long)(from + i));
      if (column == 0) weights[i] = work.weights && i < held ? work.weights[from + i] : 1;
    }
    __syncthreads();
    for (int i = 0; i < held; i++)
      UNROLL for (int r = 0; r < kOwnSide; r++)
        UNROLL for (int c = 0; c < kOwnSide; c++) {
          const double a = features[i][16 * r + y], b = values[i][16 * c + x];
          if (work.weights)
            whole[r][c] += weights[i] * integer_of(__fma_rn(a, b, kStart));
          else
            sum[r][c] = __fma_rn(a, b, sum[r][c]);
        }
    __syncthreads();
  }
  UNROLL for (int r = 0; r < kOwnSide; r++)
    UNROLL for (int c = 0; c < kOwnSide; c++) {
      const int64_t f = first_feature + 16 * r + y, v = first_value + 16 * c + x;
      if (f < work.n_features && v < work.n_values)
        add_to(work.sums + f * work.n_values + v, work.weights ? whole[r][c] : integer_of(sum[r][c]));
    }
}

// Bits, 64 to a word, from its low end: those of the highest power of two first, feature by feature, then of the next one.
// An integer is odd, below 2^n_bits in size; its bits are those of its number among such integers.
KERNEL(256, 1) pack_bits(const CrossWork work) {
  const int64_t at = blockIdx.x * (int64_t)256 + threadIdx.x;
  const int n_bits = work.n_bits * work.n_features;
  const int64_t width = (n_bits + 63) / 64, row = at / width;
  if (row >= work.rows.count) return;
  const int first = (int)(at - row * width) * 64, last = min(first + 64, n_bits);
  uint64_t word = 0;
  for (int bit = first; bit < last; bit++) {
    const int power = work.n_bits - 1 - bit / work.n_features, feature = bit % work.n_features;
    const int32_t number = (work.integers[row * work.n_features + feature] + (1 << work.n_bits) - 1) >> 1;
    if (number >> power & 1) word |= 1ull << (bit - first);
  }
  work.words[at] = word;
}

// Features, as numbers, and the row's values.
KERNEL(256, 1) join_rows(const CrossWork work) {
  const int64_t at = blockIdx.x * (int64_t)256 + threadIdx.x;
  const int64_t width = work.n_features + work.n_values, row = at / width;
  if (row >= work.rows.count) return;
  const int column = (int)(at - row * width);
  work.joined[at] = column < work.n_features
                        ? __dmul_rn(work.integers[row * work.n_features + column], work.unit)
                        : value_at(work.rows, row, column - work.n_features);
}
