#include "histogram.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <type_traits>

#include "threads.h"

namespace sketchlearn {

namespace {

constexpr int64_t kUnitRows = 4096;  // that a thread takes at a time
constexpr int64_t kChunkRows = 256;  // whose values of 16 columns fit into the nearest cache
constexpr int64_t kChunkColumns = 16;
constexpr int kLanes = 8;  // searches side by side: one alone would wait for memory at each level

// Cells away from the middle: so many for each doubling of the distance, for so many doublings.
constexpr int kOctaveBits = 6, kOctaves = 8;
constexpr int32_t kOuterCell = kOctaves << kOctaveBits;

template <class T>
using Ordered = std::conditional_t<sizeof(T) == sizeof(float), int32_t, int64_t>;

// Finite numbers as integers in the same order, zeros as one: integers are compared faster.
template <class T>
inline Ordered<T> ordered(T value) {
  const T plain = value + T{0};
  Ordered<T> bits;
  std::memcpy(&bits, &plain, sizeof bits);
  return bits ^ ((bits >> (8 * sizeof bits - 1)) & std::numeric_limits<Ordered<T>>::max());
}

// The least integer of a value that is not below an edge, or is beyond it.
template <class T>
Ordered<T> least_above(double edge, bool beyond) {
  T rounded = static_cast<T>(edge);
  if (static_cast<double>(rounded) < edge) rounded = std::nextafter(rounded, std::numeric_limits<T>::infinity());
  return ordered(rounded) + (beyond && static_cast<double>(rounded) == edge);
}

// The number of edges that are not above each value, which are at least as many as `below` says. Not inlined: GCC 12 then
// runs out of registers (4 ns became 9).
template <class Integer>
[[gnu::noinline]] void search(const Integer* edges, int levels, const uint16_t* below, const int32_t* cells,
                              const Integer* values, int64_t count, int32_t* out) {
  for (int64_t i = 0; i < count; i += kLanes) {
    int64_t found[kLanes];
    Integer value[kLanes];
    for (int l = 0; l < kLanes; l++) value[l] = values[i + l], found[l] = below[cells[i + l]];
    for (int64_t half = int64_t{1} << (levels - 1); half; half >>= 1) {
      const Integer* middle = edges + half - 1;
      asm("" : "+r"(middle));  // one address for all lanes: GCC 12 adds it up for each of them (1.5 ns a value)
      // a product, not a choice: GCC 12 makes branches of that on x86, and half of them are foreseen (10 ns a value)
      for (int l = 0; l < kLanes; l++) found[l] += half & -static_cast<int64_t>(middle[found[l]] <= value[l]);
    }
    for (int l = 0; l < kLanes; l++) out[i + l] = static_cast<int32_t>(found[l]);
  }
}

template <class T>
bool finite_as(const Rows& rows, int64_t i) {
  const T* x = static_cast<const T*>(rows.data) + i * rows.row_stride;
  for (int64_t c = 0; c < rows.n_features; c++)
    if (!(std::fabs(x[c * rows.column_stride]) <= std::numeric_limits<T>::max())) return false;
  return true;
}

bool finite_row(const Rows& rows, int64_t i) { return rows.is_double ? finite_as<double>(rows, i) : finite_as<float>(rows, i); }

}  // namespace

// From 0 to 2 kOuterCell. The logarithm is that of the bits of a float: a line from each power of two to the next.
inline int32_t Bins::cell_of(const Column& column, float value) {
  const float away = value - column.middle, far = 1.0f + std::fabs(away) * column.scale;
  const float kept = far < static_cast<float>(1 << kOctaves) ? far : static_cast<float>(1 << kOctaves);
  int32_t bits;
  std::memcpy(&bits, &kept, sizeof bits);
  const int32_t cell = (bits >> (23 - kOctaveBits)) - (127 << kOctaveBits);
  return kOuterCell + (away < 0.0f ? -cell : cell);
}

Bins::Bins(const double* edges, const int64_t* starts, int64_t n_features) : n_counts_(starts[n_features] + n_features) {
  DefaultFloatingPoint environment;  // in which values will be found, too
  below_.reserve(static_cast<size_t>(n_features * (2 * kOuterCell + 1)));
  for (int64_t c = 0; c < n_features; c++) {
    const double* own = edges + starts[c];
    const int64_t n = starts[c + 1] - starts[c];
    const double width = (own[n - 1 - n / 4] - own[n / 4]) / 2, scale = width > 0 ? 1 / width : 1.0;
    Column column{static_cast<int64_t>(double_edges_.size()), static_cast<int64_t>(below_.size()), starts[c] + c, 1, 0, 0};
    column.middle = static_cast<float>(std::clamp<double>(own[n / 2], -FLT_MAX, FLT_MAX));
    column.scale = static_cast<float>(std::clamp<double>(scale, FLT_MIN, FLT_MAX));
    int64_t next = 0;
    for (int32_t cell = 0; cell <= 2 * kOuterCell; cell++) {
      const int64_t first = next;
      while (next < n && cell_of(column, static_cast<float>(own[next])) == cell) next++;
      below_.push_back(static_cast<uint16_t>(first));
      while ((int64_t{1} << column.levels) <= next - first) column.levels++;
    }
    for (int64_t j = 0; j < n; j++) {
      double_edges_.push_back(least_above<double>(own[j], j == n - 1));
      float_edges_.push_back(least_above<float>(own[j], j == n - 1));
    }
    double_edges_.resize(double_edges_.size() + (size_t{1} << column.levels), std::numeric_limits<int64_t>::max());
    float_edges_.resize(double_edges_.size(), std::numeric_limits<int32_t>::max());
    columns_.push_back(column);
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
  template <class T>
  struct Buffer {
    T read[kChunkRows] = {};
    Ordered<T> values[kChunkRows] = {};
  };
  Buffer<double> doubles_;
  Buffer<float> floats_;
  int32_t cells_[kChunkRows] = {}, found_[kChunkRows];

  bool take_chunk(int64_t row, int64_t count, int64_t first, int64_t last, int64_t* counts) {
    for (int64_t c = first; c < last; c++) {
      const Column& column = bins_.columns_[static_cast<size_t>(c)];
      if (!(rows_.is_double ? find(column, row, count, c, doubles_, bins_.double_edges_.data())
                            : find(column, row, count, c, floats_, bins_.float_edges_.data())))
        return false;
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

  // Finds where values [row, row + count) of a column count; false if any is not finite.
  template <class T>
  bool find(const Column& column, int64_t row, int64_t count, int64_t c, Buffer<T>& buffer, const Ordered<T>* edges) {
    const T* x = static_cast<const T*>(rows_.data) + row * rows_.row_stride + c * rows_.column_stride;
    for (int64_t i = 0; i < count; i++) buffer.read[i] = x[i * rows_.row_stride];
    int32_t finite = 1;
    for (int64_t i = 0; i < count; i++) {
      const T value = buffer.read[i];
      finite &= std::fabs(value) <= std::numeric_limits<T>::max();
      buffer.values[i] = ordered(value);
      cells_[i] = cell_of(column, static_cast<float>(value));
    }
    if (!finite) return false;
    search(edges + column.edges, column.levels, bins_.below_.data() + column.below, cells_, buffer.values, count, found_);
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
