// K-means of weighted rows in memory: starting points, steps of Lloyd's algorithm, and what each center is worth.
#pragma once
#include <cstdint>
#include <memory>

#include "kernel.h"
#include "rows.h"

namespace sketchlearn {

// Centers, [n][d]; rows become (x - middle) * scale before distances are taken, in the rows' own precision.
struct Centers {
  const double *values, *middle, *scale;
  int64_t count;
};

// Labels of rows, and their squared distances from those centers. Of centers at the same distance, the first; the squares of
// rows that are not finite are not, either.
void nearest_centers(const Kernel& kernel, const Rows& rows, const Centers& centers, int n_threads, int32_t* labels,
                     double* squares);

// Rows as (x - middle) * scale, in float32 or float64. What it finds is the same on any number of threads.
class KMeansRows {
 public:
  virtual ~KMeansRows() = default;
  struct Given {
    Rows rows;
    const double *middle, *weights;  // one for each column, and each row
    double scale;
    int n_threads;
  };
  static std::unique_ptr<KMeansRows> of(const Kernel& kernel, const Given& given, bool in_float64);
  int64_t count() const { return count_; }
  int64_t n_features() const { return n_features_; }

  // Positions of k starting points by greedy k-means++: each is the best of some candidates, drawn by `uniforms`,
  // [k][n_candidates] numbers below 1.
  virtual void starts(int64_t k, const double* uniforms, int64_t n_candidates, int n_threads, int64_t* positions) const = 0;
  // Lloyd's algorithm: moves centers, [k][d], until a step lowers the cost by no more than this share of it, or, of 0, no
  // row changes its center; at most so many steps. The cost is the sum of squared distances.
  virtual double lloyd(double* centers, int64_t k, double tolerance, int64_t most_steps, int n_threads) const = 0;
  // The cluster of each row, and its squared distance.
  virtual void assign(const double* centers, int64_t k, int n_threads, int32_t* labels, double* squares) const = 0;
  // By how much the cost grows where a center alone is taken away, [k].
  virtual void removal_costs(const double* centers, int64_t k, int n_threads, double* costs) const = 0;

 protected:
  KMeansRows(int64_t count, int64_t n_features) : count_(count), n_features_(n_features) {}
  const int64_t count_, n_features_;
};

}  // namespace sketchlearn
