// Products of rows of signs, cut into tiles that stay in the cache, on threads.
#pragma once
#include <algorithm>
#include <vector>

#include "kernel.h"
#include "threads.h"

namespace sketchlearn {

constexpr int64_t kTileBytes = 32 << 10, kTileBitRows = 64;
constexpr int64_t kBitsPerThread = 1 << 24;  // fewer cost less than starting a thread
constexpr int64_t kSumRows = 4096;           // a table serves that many rows
constexpr int64_t kStrip = 4096;             // columns whose sums stay in the cache
constexpr int64_t kFewRows = 48;             // below, tables cost more than they save

inline int64_t pieces(int64_t count, int64_t size) { return (count + size - 1) / size; }
inline BitRows some_rows(const BitRows& all, int64_t from, int64_t size) {
  return {all.words + from * all.width, std::min(size, all.count - from), all.width};
}
inline int threads_for(int64_t bits, int n_threads) {
  return static_cast<int>(std::clamp<int64_t>(bits / kBitsPerThread, 1, std::max(1, n_threads)));
}

struct ProductWorker {
  const Kernel& kernel;
  const BitRows &a, &b;
  int64_t n_bits, rows, columns;
  int32_t* out;
  int64_t take(int64_t from, int64_t to, int64_t*) const {
    const int64_t across = pieces(b.count, columns);
    for (int64_t tile = from; tile < to; tile++) {
      const int64_t r = tile / across * rows, c = tile % across * columns;
      kernel.bit_products(some_rows(a, r, rows), some_rows(b, c, columns), n_bits, out + r * b.count + c, b.count);
    }
    return -1;
  }
};

// out[r][c]: the inner product of a's row r and b's row c
inline void multiply_bits(const Kernel& kernel, const BitRows& a, const BitRows& b, int64_t n_bits, int n_threads, int32_t* out) {
  const int64_t columns = std::max<int64_t>(4, kTileBytes / (8 * a.width) / 4 * 4);
  const int64_t tiles = pieces(a.count, kTileBitRows) * pieces(b.count, columns);
  const int threads = threads_for(a.count * b.count * n_bits, n_threads);
  for_rows(tiles, 1, threads, 0, nullptr, [&] { return ProductWorker{kernel, a, b, n_bits, kTileBitRows, columns, out}; });
}

struct SumWorker {
  const Kernel& kernel;
  const BitRows& bits;
  int64_t n_bits, n_columns;
  const float* weights;
  float* out;
  std::vector<float> tables, panel, sums;
  int64_t take(int64_t from, int64_t to, int64_t*) {
    const int64_t width = kernel.sum_columns, bytes = pieces(n_bits, 8), blocks = pieces(bits.count, kSumRows);
    for (int64_t task = from; task < to; task++) {
      const int64_t start = task % blocks * kSumRows, column = task / blocks * width;
      const int64_t columns = std::min(width, n_columns - column);
      const BitRows rows = some_rows(bits, start, kSumRows);
      panel.assign(static_cast<size_t>(bytes * 8 * width), 0.0f);
      for (int64_t bit = 0; bit < n_bits; bit++)
        std::copy_n(weights + bit * n_columns + column, columns, panel.data() + bit * width);
      sums.resize(static_cast<size_t>(rows.count * width));
      kernel.signed_sums(rows, bytes, panel.data(), tables.data(), sums.data());
      for (int64_t r = 0; r < rows.count; r++)
        std::copy_n(sums.data() + r * width, columns, out + (start + r) * n_columns + column);
    }
    return -1;
  }
};

struct RowSumWorker {
  const Kernel& kernel;
  const BitRows& bits;
  int64_t n_bits, n_columns;
  const float* weights;
  float* out;
  int64_t take(int64_t from, int64_t to, int64_t*) const {
    for (int64_t strip = from; strip < to; strip++)
      for (int64_t r = 0, c = strip * kStrip; r < bits.count; r++)
        kernel.signed_row(bits.words + r * bits.width, n_bits, weights + c, n_columns, std::min(kStrip, n_columns - c),
                          out + r * n_columns + c);
    return -1;
  }
};

// out[row][column]: the sum of the weights of that column, each with the row's sign
inline void sum_signed(const Kernel& kernel, const BitRows& bits, int64_t n_bits, const float* weights, int64_t n_columns,
                       int n_threads, float* out) {
  const int threads = threads_for(bits.count * n_columns * n_bits, n_threads);
  if (bits.count < kFewRows) {
    const auto worker = [&] { return RowSumWorker{kernel, bits, n_bits, n_columns, weights, out}; };
    for_rows(pieces(n_columns, kStrip), 1, threads, 0, nullptr, worker);
    return;
  }
  const int64_t tasks = pieces(bits.count, kSumRows) * pieces(n_columns, kernel.sum_columns);
  for_rows(tasks, 1, threads, 0, nullptr, [&] {
    return SumWorker{kernel, bits, n_bits, n_columns, weights, out, std::vector<float>(kernel.table_floats), {}, {}};
  });
}

}  // namespace sketchlearn
