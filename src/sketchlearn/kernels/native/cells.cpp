#include "cells.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "threads.h"

namespace sketchlearn {
namespace {

constexpr int64_t kUnitRows = 20 * kBlockRows;  // that a thread takes at a time
constexpr int64_t kAddedRows = 5 * kBlockRows;  // that are put in order of their cells, whose sums are then read and written once
constexpr int64_t kAddedValues = 1 << 17;       // of those, that stay in the second cache

int64_t rows_to_add(const Kernel& kernel, int64_t stride) {
  return std::clamp<int64_t>(kAddedValues / stride / kernel.cell_rows * kernel.cell_rows, kernel.cell_rows, kAddedRows);
}

template <class S>
std::vector<S> infinities(int64_t n) {
  return std::vector<S>(static_cast<size_t>(n), std::numeric_limits<S>::infinity());
}

}  // namespace

// Rows of a block in the columns themselves.
class ColumnBlock {
 public:
  ColumnBlock(const CellsInColumns& cells, const Rows& rows)
      : cells_(cells),
        kernel_(cells.kernel_),
        rows_{rows.data, rows.is_double, rows.n_features, rows.row_stride, rows.column_stride,
              cells.center_.data(), cells.center_float_.data(), cells.scale_.data()},
        points_{cells.panels_.data(), cells.halves_.data(), static_cast<int64_t>(cells.halves_.size()), cells.depth_},
        stride_(rounded_up(rows.n_features, kernel_.cell_lanes)),
        n_rows_(rows_to_add(kernel_, stride_)),
        refuse_(cells.refuse_),
        values_(static_cast<size_t>(rounded_up(n_rows_, kernel_.cell_rows) * stride_)) {}

  int64_t n_rows() const { return n_rows_; }
  int read(int64_t i, int64_t r) {
    const int odd = kernel_.read_bounded_row(rows_, i, values_.data() + r * stride_);
    return odd && refuse_ ? kRowBad : odd;
  }
  void find(int64_t first, int64_t count, int32_t* labels) {
    kernel_.find_cells(values_.data() + first * stride_, count, stride_, points_, labels);
  }
  void add(int64_t cell, const int32_t* rows, int64_t count, const int64_t* weights, int64_t* sums) const {
    const int64_t d = rows_.n_features;
    kernel_.add_to_cell(values_.data(), stride_, rows, count, d, weights, sums);
    if (cells_.places_.empty()) return;
    const MedianPoint at{cells_.factors_.data(), cells_.places_.data() + cell * stride_, cells_.radius_, cells_.distance_unit_};
    kernel_.add_pulls_to_cell(values_.data(), stride_, rows, count, d, at, weights, sums + 1 + 2 * d);
  }

 private:
  const CellsInColumns& cells_;
  const Kernel& kernel_;
  const CellRows rows_;
  const CellPoints<float> points_;
  const int64_t stride_, n_rows_;
  const bool refuse_;
  std::vector<float> values_;
};

// Rows of a block in whole numbers.
class PlacedBlock {
 public:
  PlacedBlock(const CellsInDirections& cells, const Rows& rows)
      : cells_(cells), block_(cells.directions_, rows, rows_to_add(cells.kernel_, cells.directions_.stride())) {}

  int64_t n_rows() const { return block_.n_rows(); }
  int read(int64_t i, int64_t r) { return block_.read(i, r); }
  void find(int64_t first, int64_t count, int32_t* labels) {
    block_.find_places(first, count);
    const int64_t width = block_.place_stride();
    const CellPoints<double> points{cells_.panels_.data(), cells_.halves_.data(), (int64_t)cells_.halves_.size(), width};
    cells_.kernel_.find_double_cells(block_.places(0), count, width, points, labels);
  }
  void add(int64_t, const int32_t* rows, int64_t count, const int64_t* weights, int64_t* sums) const {
    cells_.kernel_.add_whole_rows(block_.values(0), cells_.directions_.stride(), rows, count, cells_.n_features_, cells_.by_column_,
                                  weights, sums);
  }

 private:
  const CellsInDirections& cells_;
  DirectedBlock block_;
};

template <class Block>
class CellWorker {
 public:
  CellWorker(Block block, const Cells& cells, const Cells::Purpose& purpose)
      : block_(std::move(block)),
        purpose_(purpose),
        width_(cells.width_),
        n_sums_(cells.n_sums()),
        by_count_(cells.count_ <= 2 * block_.n_rows()),
        starts_(static_cast<size_t>(by_count_ ? cells.count_ + 1 : 0)),
        labels_(static_cast<size_t>(block_.n_rows())),
        order_(labels_) {}

  int64_t take(int64_t from, int64_t to, int64_t* sums) {
    for (int64_t first = from; first < to; first += block_.n_rows()) {
      const int64_t count = std::min(block_.n_rows(), to - first), bad = read(first, count);
      if (bad >= 0) return bad;
      for (int64_t r = 0; r < count; r += kBlockRows) block_.find(r, std::min<int64_t>(kBlockRows, count - r), labels_.data() + r);
      if (purpose_.labels) std::copy_n(labels_.data(), count, purpose_.labels + first);
      for (int64_t r = 0; purpose_.integers && r < count; r++) {
        const int32_t row = static_cast<int32_t>(r);
        block_.add(labels_[r], &row, 1, nullptr, purpose_.integers + (first + r) * n_sums_ + labels_[r] * width_);
      }
      if (!sums) continue;
      order(count);
      const int64_t* weights = purpose_.weights ? purpose_.weights + first : nullptr;
      for (int64_t start = 0, end = 0; start < count; start = end) {
        const int32_t cell = labels_[order_[start]];
        while (end < count && labels_[order_[end]] == cell) end++;
        block_.add(cell, order_.data() + start, end - start, weights, sums + cell * width_);
      }
    }
    return -1;
  }

 private:
  Block block_;
  const Cells::Purpose purpose_;
  const int64_t width_, n_sums_;
  const bool by_count_;  // rows are put in order by counting those of each cell
  std::vector<int32_t> starts_, labels_, order_;

  // Rows in order of their cells.
  void order(int64_t count) {
    if (!by_count_) {
      std::iota(order_.begin(), order_.begin() + count, 0);
      std::sort(order_.begin(), order_.begin() + count,
                [&](int32_t a, int32_t b) { return labels_[a] != labels_[b] ? labels_[a] < labels_[b] : a < b; });
      return;
    }
    std::fill(starts_.begin(), starts_.end(), 0);
    for (int64_t r = 0; r < count; r++) starts_[labels_[r] + 1]++;
    std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
    for (int64_t r = 0; r < count; r++) order_[starts_[labels_[r]]++] = static_cast<int32_t>(r);
  }
  // Reads a block; returns the first row that is refused, or -1.
  int64_t read(int64_t first, int64_t count) {
    int64_t clipped = 0;
    for (int64_t r = 0; r < count; r++) {
      const int odd = block_.read(first + r, r);
      if (odd & kRowBad) return first + r;
      clipped += odd != 0;
    }
    if (purpose_.clipped && clipped) purpose_.clipped->fetch_add(clipped);
    return -1;
  }
};

int64_t Cells::add(const Rows& rows, const int64_t* weights, int n_threads, int64_t* sums, int64_t* clipped) const {
  std::atomic<int64_t> moved{0};
  const int64_t bad = take(rows, n_threads, {weights, sums, nullptr, nullptr, &moved});
  *clipped = moved.load();
  return bad;
}

int64_t Cells::write(const Rows& rows, int n_threads, int64_t* integers) const {
  return take(rows, n_threads, {nullptr, nullptr, integers, nullptr, nullptr});
}

int64_t Cells::find(const Rows& rows, int n_threads, int32_t* labels) const {
  return take(rows, n_threads, {nullptr, nullptr, nullptr, labels, nullptr});
}

CellsInColumns::CellsInColumns(const Kernel& kernel, const Given& given)
    : Cells(kernel, given.n_features, given.count, 1 + 2 * given.n_features + (given.places ? 2 + given.n_features : 0)),
      center_(padded<double>(given.center, n_features_, kernel.cell_lanes)),
      center_float_(center_.begin(), center_.end()),
      scale_(padded<float>(given.scale, n_features_, kernel.cell_lanes)),
      halves_(infinities<float>(rounded_up(count_, kernel.cell_lanes))),
      radius_(given.radius),
      distance_unit_(given.distance_unit),
      depth_(rounded_up(n_features_, kernel.columns_at_once)),
      refuse_(given.refuse) {
  panels_ = in_panels<float>(kernel, count_, kernel.cell_lanes, n_features_, depth_,
                             [&](int64_t c, int64_t k) { return given.points[c * n_features_ + k]; });
  std::copy_n(given.halves, count_, halves_.begin());
  if (!given.places) return;
  const int64_t stride = rounded_up(n_features_, kernel.cell_lanes);
  factors_ = padded<float>(given.factors, n_features_, kernel.cell_lanes);
  places_.resize(static_cast<size_t>(count_ * stride));
  for (int64_t c = 0; c < count_; c++) std::copy_n(given.places + c * n_features_, n_features_, places_.begin() + c * stride);
}

int64_t CellsInColumns::take(const Rows& rows, int n_threads, const Purpose& purpose) const {
  return for_rows(rows.count, kUnitRows, n_threads, purpose.sums ? n_sums() : 0, purpose.sums,
                  [&] { return CellWorker<ColumnBlock>({*this, rows}, *this, purpose); });
}

CellsInDirections::CellsInDirections(const Directions& directions, const double* points, int64_t count, bool by_column)
    : Cells(directions.kernel(), directions.n_features(), count,
            1 + directions.n_features() + (by_column ? directions.n_features() : 1)),
      directions_(directions),
      halves_(infinities<double>(rounded_up(count, kernel_.cell_lanes / 2))),
      by_column_(by_column) {
  const int64_t p = directions.count(), lanes = kernel_.cell_lanes / 2;
  panels_ = in_panels<double>(kernel_, count, lanes, p, rounded_up(p, lanes), [&](int64_t c, int64_t k) { return points[c * p + k]; });
  for (int64_t c = 0; c < count; c++) {
    double square = 0.0;
    for (int64_t k = 0; k < p; k++) square += points[c * p + k] * points[c * p + k];
    halves_[static_cast<size_t>(c)] = 0.5 * square;
  }
}

int64_t CellsInDirections::take(const Rows& rows, int n_threads, const Purpose& purpose) const {
  return for_rows(rows.count, kUnitRows, n_threads, purpose.sums ? n_sums() : 0, purpose.sums,
                  [&] { return CellWorker<PlacedBlock>({*this, rows}, *this, purpose); });
}

}  // namespace sketchlearn
