#include "cells.h"

#include <algorithm>
#include <limits>

#include "threads.h"

namespace sketchlearn {
namespace {

constexpr int64_t kUnitRows = 16 * kBlockRows;  // that a thread takes at a time
constexpr int64_t kKeyStep = 256;
static_assert(kBlockRows <= kKeyStep, "a key tells its row");

template <class S>
std::vector<S> infinities(int64_t n) {
  return std::vector<S>(static_cast<size_t>(n), std::numeric_limits<S>::infinity());
}

}  // namespace

// Rows of a block in the columns themselves.
class ColumnBlock {
 public:
  ColumnBlock(const CellsInColumns& cells, const Rows& rows)
      : kernel_(cells.kernel_),
        rows_{rows.data, rows.is_double, rows.n_features, rows.row_stride, rows.column_stride,
              cells.center_.data(), cells.center_float_.data(), cells.scale_.data()},
        points_{cells.panels_.data(), cells.halves_.data(), static_cast<int64_t>(cells.halves_.size())},
        stride_(cells.stride_),
        width_(cells.width_),
        n_rows_(rows_of_block(kernel_, stride_)),
        refuse_(cells.refuse_),
        values_(static_cast<size_t>(n_rows_ * stride_)) {}

  int64_t n_rows() const { return n_rows_; }
  int read(int64_t i, int64_t r) {
    const int odd = kernel_.read_bounded_row(rows_, i, values_.data() + r * stride_);
    return odd && refuse_ ? kRowBad : odd;
  }
  void find(int64_t count, int32_t* labels) { kernel_.find_cells(values_.data(), count, stride_, points_, labels); }
  void add_row(int64_t r, const int64_t* weight, int64_t* sums) const {
    kernel_.add_to_cell(values_.data() + r * stride_, rows_.n_features, weight, sums);
  }
  void add(int64_t count, const int32_t* labels, const int64_t* weights, int64_t* sums) const {
    for (int64_t r = 0; r < count; r++) add_row(r, weights ? weights + r : nullptr, sums + labels[r] * width_);
  }

 private:
  const Kernel& kernel_;
  const CellRows rows_;
  const CellPoints<float> points_;
  const int64_t stride_, width_, n_rows_;
  const bool refuse_;
  std::vector<float> values_;
};

// Rows of a block in whole numbers.
class PlacedBlock {
 public:
  PlacedBlock(const CellsInDirections& cells, const Rows& rows) : cells_(cells), block_(cells.directions_, rows) {}

  int64_t n_rows() const { return block_.n_rows(); }
  int read(int64_t i, int64_t r) { return block_.read(i, r); }
  void find(int64_t count, int32_t* labels) {
    block_.find_places(count);
    const CellPoints<double> points{cells_.panels_.data(), cells_.halves_.data(), (int64_t)cells_.halves_.size()};
    cells_.kernel_.find_directed_cells(block_.places(0), count, block_.place_stride(), points, labels);
  }
  void add_row(int64_t r, const int64_t* weight, int64_t* sums) const {
    const double* values = block_.values(r);
    cells_.kernel_.add_whole_rows(&values, 1, cells_.n_features_, cells_.by_column_, weight, sums);
  }
  // Cell by cell, so that the sums of one are read and written once for several rows.
  void add(int64_t count, const int32_t* labels, const int64_t* weights, int64_t* sums) const {
    int64_t keys[kBlockRows], own_weights[kBlockRows];  // a row's key: its cell, then its number
    const double* rows[kBlockRows];
    for (int64_t r = 0; r < count; r++) keys[r] = labels[r] * kKeyStep + r;
    std::sort(keys, keys + count);
    for (int64_t i = 0; i < count; i++) {
      rows[i] = block_.values(keys[i] % kKeyStep);
      if (weights) own_weights[i] = weights[keys[i] % kKeyStep];
    }
    for (int64_t from = 0, to = 0; from < count; from = to) {
      const int64_t cell = keys[from] / kKeyStep;
      while (to < count && keys[to] / kKeyStep == cell) to++;
      cells_.kernel_.add_whole_rows(rows + from, to - from, cells_.n_features_, cells_.by_column_,
                                    weights ? own_weights + from : nullptr, sums + cell * cells_.width_);
    }
  }

 private:
  const CellsInDirections& cells_;
  DirectedBlock block_;
};

template <class Block>
class CellWorker {
 public:
  CellWorker(Block block, const Cells& cells, const Cells::Purpose& purpose)
      : block_(std::move(block)), purpose_(purpose), width_(cells.width_), n_sums_(cells.n_sums()) {}

  int64_t take(int64_t from, int64_t to, int64_t* sums) {
    for (int64_t first = from; first < to; first += block_.n_rows()) {
      const int64_t count = std::min(block_.n_rows(), to - first), bad = read(first, count);
      if (bad >= 0) return bad;
      int32_t found[kBlockRows];
      block_.find(count, found);
      if (purpose_.labels) std::copy_n(found, count, purpose_.labels + first);
      for (int64_t r = 0; purpose_.integers && r < count; r++)
        block_.add_row(r, nullptr, purpose_.integers + (first + r) * n_sums_ + found[r] * width_);
      if (sums) block_.add(count, found, purpose_.weights ? purpose_.weights + first : nullptr, sums);
    }
    return -1;
  }

 private:
  Block block_;
  const Cells::Purpose purpose_;
  const int64_t width_, n_sums_;

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
    : Cells(kernel, given.n_features, given.count, 1 + 2 * given.n_features),
      center_(given.center, given.center + n_features_),
      center_float_(center_.begin(), center_.end()),
      scale_(given.scale, given.scale + n_features_),
      halves_(infinities<float>(rounded_up(count_, kernel.cell_lanes))),
      stride_(rounded_up(n_features_, kCellPadding)),
      refuse_(given.refuse) {
  panels_ = in_panels<float>(kernel, count_, kernel.cell_lanes, n_features_, stride_,
                             [&](int64_t c, int64_t k) { return given.points[c * n_features_ + k]; });
  std::copy_n(given.halves, count_, halves_.begin());
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
