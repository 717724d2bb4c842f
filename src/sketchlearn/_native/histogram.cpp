#include "histogram.h"

#include <algorithm>
#include <cfloat>
#include <limits>

#include "threads.h"

namespace sketchlearn {

namespace {

constexpr int64_t kUnitRows = 4096;  // that a thread takes at a time
constexpr int64_t kChunkRows = 256;  // whose values of 16 columns fit into the nearest cache
constexpr int64_t kChunkColumns = 16;
constexpr int kLanes = 8;  // searches side by side: one alone would wait for memory at each level

// Finite numbers as integers in the same order, zeros as one: integers are compared faster.
inline int64_t ordered(double value) {
  const double plain = value + 0.0;
  int64_t bits;
  std::memcpy(&bits, &plain, sizeof bits);
  return bits ^ ((bits >> 63) & std::numeric_limits<int64_t>::max());
}

// Reads values [from, from + count) of a column; false if any is not finite.
template <class T>
bool read_as(const Rows& rows, int64_t from, int64_t count, int64_t column, int64_t* out) {
  const T* x = static_cast<const T*>(rows.data) + from * rows.row_stride + column * rows.column_stride;
  bool finite = true;
  for (int64_t i = 0; i < count; i++) {
    const double value = static_cast<double>(x[i * rows.row_stride]);
    finite &= std::fabs(value) <= DBL_MAX;
    out[i] = ordered(value);
  }
  return finite;
}

// The number of edges that are not above each value. Not inlined: GCC 12 then runs out of registers (4 ns became 9).
[[gnu::noinline]] void search(const int64_t* edges, int levels, const int64_t* values, int64_t count, int32_t* out) {
  for (int64_t i = 0; i < count; i += kLanes) {
    int64_t found[kLanes] = {}, value[kLanes];
    for (int l = 0; l < kLanes; l++) value[l] = values[i + l];
    for (int64_t half = int64_t{1} << (levels - 1); half; half >>= 1) {
      const int64_t* middle = edges + half - 1;
      asm("" : "+r"(middle));  // one address for all lanes: GCC 12 adds it up for each of them (1.5 ns a value)
      for (int l = 0; l < kLanes; l++) {
        const int64_t upper = found[l] + half;
        found[l] = middle[found[l]] <= value[l] ? upper : found[l];
      }
    }
    for (int l = 0; l < kLanes; l++) out[i + l] = static_cast<int32_t>(found[l]);
  }
}

bool finite_row(const Rows& rows, int64_t i) {
  int64_t ignored;
  for (int64_t c = 0; c < rows.n_features; c++)
    if (!(rows.is_double ? read_as<double>(rows, i, 1, c, &ignored) : read_as<float>(rows, i, 1, c, &ignored))) return false;
  return true;
}

}  // namespace

Bins::Bins(const double* edges, const int64_t* starts, int64_t n_features) : n_counts_(starts[n_features] + n_features) {
  for (int64_t c = 0; c < n_features; c++) {
    const int64_t n = starts[c + 1] - starts[c], table = static_cast<int64_t>(edges_.size());
    int levels = 1;
    while ((int64_t{1} << levels) <= n) levels++;
    columns_.push_back({table, starts[c] + c, levels});
    for (int64_t j = starts[c]; j < starts[c + 1]; j++) edges_.push_back(ordered(edges[j]));
    edges_.back()++;  // "beyond the last edge" is "not below the number after it"
    edges_.resize(static_cast<size_t>(table + (int64_t{1} << levels) - 1), std::numeric_limits<int64_t>::max());
  }
}

class Bins::Worker {
 public:
  Worker(const Bins& bins, const Rows& rows, const int64_t* weights, int32_t* out)
      : bins_(bins), rows_(rows), weights_(weights), out_(out) {}

  int64_t take(int64_t from, int64_t to, int64_t* counts) {
    for (int64_t row = from; row < to; row += kChunkRows)
      for (int64_t c = 0; c < rows_.n_features; c += kChunkColumns) {
        const int64_t last = std::min(c + kChunkColumns, rows_.n_features);
        if (!take_chunk(row, std::min(kChunkRows, to - row), c, last, counts)) return first_bad(row);
      }
    return -1;
  }

 private:
  const Bins& bins_;
  const Rows& rows_;
  const int64_t* weights_;
  int32_t* out_;
  int64_t values_[kChunkRows] = {};
  int32_t found_[kChunkRows];

  bool take_chunk(int64_t row, int64_t count, int64_t first, int64_t last, int64_t* counts) {
    for (int64_t c = first; c < last; c++) {
      const Column& column = bins_.columns_[static_cast<size_t>(c)];
      if (!(rows_.is_double ? read_as<double>(rows_, row, count, c, values_) : read_as<float>(rows_, row, count, c, values_)))
        return false;
      search(bins_.edges_.data() + column.table, column.levels, values_, count, found_);
      if (out_)
        for (int64_t i = 0; i < count; i++)
          out_[(row + i) * rows_.n_features + c] = static_cast<int32_t>(column.first) + found_[i];
      else if (weights_)
        for (int64_t i = 0; i < count; i++) counts[column.first + found_[i]] += weights_[row + i];
      else
        for (int64_t i = 0; i < count; i++) counts[column.first + found_[i]]++;
    }
    return true;
  }

  int64_t first_bad(int64_t row) const {
    while (finite_row(rows_, row)) row++;
    return row;
  }
};

int64_t Bins::add(const Rows& rows, const int64_t* weights, int n_threads, int64_t* counts) const {
  return for_rows(rows.count, kUnitRows, n_threads, n_counts_, counts,
                  [&] { return Worker(*this, rows, weights, nullptr); });
}

int64_t Bins::write(const Rows& rows, int n_threads, int32_t* out) const {
  return for_rows(rows.count, kUnitRows, n_threads, 0, nullptr, [&] { return Worker(*this, rows, nullptr, out); });
}

}  // namespace sketchlearn
