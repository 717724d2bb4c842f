// The nearest of some centers to each row, and its squared distance.
#pragma once
#include <cstdint>

#include "rows.h"

namespace sketchlearn {

// Centers, [n][d]; rows become (x - middle) * scale before distances are taken, in the rows' own precision.
struct Centers {
  const double *values, *middle, *scale;
  int64_t count;
};

// Of centers at the same distance, the first; rows that are not finite have label 0 and a square that is not, either.
void nearest_centers(const Rows& rows, const Centers& centers, int n_threads, int32_t* labels, double* squares);

}  // namespace sketchlearn
