#include "cells.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "threads.h"

namespace sketchlearn {
namespace {

constexpr int64_t kUnitRows = 16 * kBlockRows;  // that a thread takes at a time
constexpr int64_t kBlockValues = 1 << 15;       // that stay in the second cache

int64_t rounded_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// What all threads read: the center in the rows' own precision, and points in panels.
struct Prepared {
  Prepared(const Kernel& kernel, const Rows& rows, const Cells& cells)
      : center(cells.center, cells.center + rows.n_features),
        stride(rounded_up(rows.n_features, kCellPadding)),
        n_padded(rounded_up(cells.count, kernel.cell_lanes)),
        panels(static_cast<size_t>(n_padded * stride)),
        halves(static_cast<size_t>(n_padded), std::numeric_limits<float>::infinity()) {
    const int64_t d = rows.n_features;
    for (int64_t c = 0; c < cells.count; c++)
      for (int64_t k = 0; k < d; k++)
        panels[static_cast<size_t>(kernel.cell_panel_at(c, k, n_padded, stride))] = cells.points[c * d + k];
    std::copy_n(cells.halves, cells.count, halves.begin());
  }
  std::vector<float> center;  // of rows of float32
  int64_t stride, n_padded;
  std::vector<float> panels, halves;
};

class CellWorker {
 public:
  CellWorker(const Kernel& kernel, const Rows& rows, const Cells& cells, const Prepared& prepared, const int64_t* weights,
             int32_t* labels, std::atomic<int64_t>* clipped)
      : kernel_(kernel),
        rows_{rows.data, rows.is_double, rows.n_features, rows.row_stride, rows.column_stride,
              cells.center, prepared.center.data(), cells.scale},
        points_{prepared.panels.data(), prepared.halves.data(), prepared.n_padded},
        stride_(prepared.stride),
        block_(std::clamp<int64_t>(kBlockValues / stride_ / kernel.cell_rows * kernel.cell_rows, kernel.cell_rows, kBlockRows)),
        refuse_(cells.refuse),
        weights_(weights),
        labels_(labels),
        clipped_(clipped),
        values_(static_cast<size_t>(block_ * stride_)) {}

  int64_t take(int64_t from, int64_t to, int64_t* sums) {
    const int64_t d = rows_.n_features;
    for (int64_t first = from; first < to; first += block_) {
      const int64_t count = std::min(block_, to - first), bad = read(first, count);
      if (bad >= 0) return bad;
      int32_t found[kBlockRows];
      kernel_.find_cells(values_.data(), count, stride_, points_, found);
      if (labels_) std::copy_n(found, count, labels_ + first);
      for (int64_t r = 0; sums && r < count; r++)
        kernel_.add_to_cell(values_.data() + r * stride_, d, weights_ ? weights_ + first + r : nullptr,
                            sums + found[r] * (1 + 2 * d));
    }
    return -1;
  }

 private:
  const Kernel& kernel_;
  const CellRows rows_;
  const CellPoints points_;
  const int64_t stride_, block_;
  const bool refuse_;
  const int64_t* weights_;
  int32_t* labels_;
  std::atomic<int64_t>* clipped_;
  std::vector<float> values_;

  // Reads a block; returns the first row that is refused, or -1.
  int64_t read(int64_t first, int64_t count) {
    int64_t clipped = 0;
    for (int64_t r = 0; r < count; r++) {
      const int odd = kernel_.read_bounded_row(rows_, first + r, values_.data() + r * stride_);
      if ((odd & kRowBad) || (refuse_ && odd)) return first + r;
      clipped += odd != 0;
    }
    if (clipped_ && clipped) clipped_->fetch_add(clipped);
    return -1;
  }
};

}  // namespace

int64_t add_to_cells(const Kernel& kernel, const Rows& rows, const Cells& cells, const int64_t* weights, int n_threads,
                     int64_t* sums, int64_t* clipped) {
  const Prepared prepared(kernel, rows, cells);
  std::atomic<int64_t> moved{0};
  const int64_t bad = for_rows(rows.count, kUnitRows, n_threads, cells.count * (1 + 2 * rows.n_features), sums, [&] {
    return CellWorker(kernel, rows, cells, prepared, weights, nullptr, &moved);
  });
  *clipped = moved.load();
  return bad;
}

int64_t find_cells(const Kernel& kernel, const Rows& rows, const Cells& cells, int n_threads, int32_t* labels) {
  const Prepared prepared(kernel, rows, cells);
  return for_rows(rows.count, kUnitRows, n_threads, 0, nullptr, [&] {
    return CellWorker(kernel, rows, cells, prepared, nullptr, labels, nullptr);
  });
}

}  // namespace sketchlearn
