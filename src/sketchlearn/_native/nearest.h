// The nearest of some centers to each row.
#pragma once
#include <cstdint>

#include "kernel.h"
#include "rows.h"

namespace sketchlearn {

// Centers, [n][d]; rows become (x - middle) * scale before distances are taken, in the rows' own precision.
struct Centers {
  const double *values, *middle, *scale;
  int64_t count;
};

// Labels of rows, and their squared distances from those centers. Of centers at the same distance, the first; rows that are
// not finite have label 0 and a square that is not, either.
void nearest_centers(const Kernel& kernel, const Rows& rows, const Centers& centers, int n_threads, int32_t* labels,
                     double* squares);

// A step of Lloyd's algorithm: labels of rows, the squared distances less the rows' own squares, and of each center the
// weight of its rows and their weighted sum, [n][d]. Rows count in their own precision, sums in float64.
void lloyd_step(const Kernel& kernel, const Rows& rows, const Centers& centers, const double* weights, int32_t* labels,
                double* scores, double* sizes, double* sums);

}  // namespace sketchlearn
