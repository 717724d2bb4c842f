// Sums of rows by Voronoi cell: counts, squares and values of all columns.
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

#include "directions.h"
#include "kernel.h"
#include "rows.h"

namespace sketchlearn {

// Cells, and how rows are put into them. All functions return the first row that is refused, or -1.
class Cells {
 public:
  virtual ~Cells() = default;
  int64_t n_features() const { return n_features_; }
  int64_t n_sums() const { return count_ * width_; }
  // Adds rows to the sums of their cells, [cell][width]. `clipped`: how many were moved onto the bound.
  int64_t add(const Rows& rows, const int64_t* weights, int n_threads, int64_t* sums, int64_t* clipped) const;
  // Adds each row to sums of its own, [row][cell][width].
  int64_t write(const Rows& rows, int n_threads, int64_t* integers) const;
  // The cell of each row, of those that are not refused.
  int64_t find(const Rows& rows, int n_threads, int32_t* labels) const;

 protected:
  // What becomes of rows; null for what is not asked for.
  struct Purpose {
    const int64_t* weights;
    int64_t *sums, *integers;
    int32_t* labels;
    std::atomic<int64_t>* clipped;
  };
  Cells(const Kernel& kernel, int64_t n_features, int64_t count, int64_t width)
      : kernel_(kernel), n_features_(n_features), count_(count), width_(width) {}
  virtual int64_t take(const Rows& rows, int n_threads, const Purpose& purpose) const = 0;
  const Kernel& kernel_;
  const int64_t n_features_, count_, width_;  // width: sums of a cell

 private:
  template <class Block>
  friend class CellWorker;
};

// In the columns themselves: the first cell with the least half less product of point, [n][d], and v.
class CellsInColumns : public Cells {
 public:
  struct Given {
    const double* center;
    const float *scale, *points, *halves;
    int64_t n_features, count;
    bool refuse;  // rows beyond the bound, rather than move them onto it
    // For medians, places of points, [n][d], and what rows are times to be compared with them; null for means alone
    const float *places, *factors;
    float radius, distance_unit;
  };
  CellsInColumns(const Kernel& kernel, const Given& given);

 private:
  friend class ColumnBlock;
  int64_t take(const Rows& rows, int n_threads, const Purpose& purpose) const override;
  std::vector<double> center_;
  std::vector<float> center_float_, scale_, panels_, halves_;
  std::vector<float> factors_, places_;  // [cell][whole vectors]; empty for means alone
  float radius_, distance_unit_;
  int64_t depth_;  // of panels
  bool refuse_;
};

// In directions, which it does not own: the first cell whose point, [n][p], is nearest to a row's place.
class CellsInDirections : public Cells {
 public:
  CellsInDirections(const Directions& directions, const double* points, int64_t count, bool by_column);

 private:
  friend class PlacedBlock;
  int64_t take(const Rows& rows, int n_threads, const Purpose& purpose) const override;
  const Directions& directions_;
  std::vector<double> panels_, halves_;
  bool by_column_;
};

}  // namespace sketchlearn
