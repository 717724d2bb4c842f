// Rows in whole numbers, and their places in a few directions.
#pragma once
#include <cstdint>
#include <vector>

#include "kernel.h"
#include "rows.h"

namespace sketchlearn {

constexpr int64_t kBlockValues = 1 << 15;  // that stay in the second cache

inline int64_t rounded_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// The first d numbers, and zeros up to a multiple of `unit`.
template <class S>
std::vector<S> padded(const S* numbers, int64_t d, int64_t unit) {
  std::vector<S> found(numbers, numbers + d);
  found.resize(static_cast<size_t>(rounded_up(d, unit)));
  return found;
}

// Rows of a block: as many as stay in the second cache, in whole tiles.
int64_t rows_of_block(const Kernel& kernel, int64_t stride);

// Columns of numbers in panels. at(column, k) gives them.
template <class S, class At>
std::vector<S> in_panels(const Kernel& kernel, int64_t count, int64_t lanes, int64_t depth, int64_t padded_depth, const At& at) {
  const int64_t n_padded = rounded_up(count, lanes);
  std::vector<S> panels(static_cast<size_t>(n_padded * padded_depth));
  for (int64_t c = 0; c < count; c++) {
    const PanelColumn column = kernel.panel_column(c, lanes, n_padded, padded_depth);
    for (int64_t k = 0; k < depth; k++) panels[static_cast<size_t>(column.first + k * column.step)] = at(c, k);
  }
  return panels;
}

// How rows become whole numbers v, and places y of those, docs/reference/arithmetic.md.
class Directions {
 public:
  struct Given {
    const double *center, *bound, *directions;  // directions: [d][count]
    int64_t n_features, count;
    double unit;             // that products with directions are times
    bool normalize, refuse;  // rows are divided by their length; those beyond the bound are refused, not moved onto it
  };
  Directions(const Kernel& kernel, const Given& given);

  const Kernel& kernel() const { return kernel_; }
  int64_t n_features() const { return n_features_; }
  int64_t count() const { return count_; }
  int64_t stride() const { return stride_; }  // of values
  // Places of rows, [row][count], and values, [row][d]; NaN where a row is refused.
  void places(const Rows& rows, int n_threads, double* out) const;
  void values(const Rows& rows, int n_threads, double* out) const;

 private:
  friend class DirectedBlock;
  const Kernel& kernel_;
  int64_t n_features_, count_, stride_, n_padded_;
  std::vector<double> center_, bound_, factor_, panels_;
  double unit_;
  bool normalize_, refuse_;
};

// Some rows in whole numbers.
class DirectedBlock {
 public:
  DirectedBlock(const Directions& directions, const Rows& rows, int64_t n_rows);

  int64_t n_rows() const { return n_rows_; }
  int64_t place_stride() const { return given_.n_padded_; }
  const double* values(int64_t r) const { return values_.data() + r * given_.stride_; }
  // Of the rows whose places were found.
  const double* places(int64_t r) const { return places_.data() + r * given_.n_padded_; }
  // Row i as row r of the block: kRowBad if it is refused, kRowClipped if it was moved onto the bound.
  int read(int64_t i, int64_t r);
  void find_places(int64_t first, int64_t count);  // of at most kBlockRows rows

 private:
  const Directions& given_;
  const WholeRows rows_;
  const int64_t n_rows_;
  std::vector<double> values_, places_;
};

}  // namespace sketchlearn
