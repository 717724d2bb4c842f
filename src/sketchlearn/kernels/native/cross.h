// Sums over records of features times values.
#pragma once
#include <cstdint>

#include "kernel.h"
#include "rows.h"

namespace sketchlearn {

// Features are integers, `factor` of which make one into at most 2^15; values are (x - center) 2^15 / bound. Their products
// are rounded once to integers, and added up (times the records' weights, if any) into sums[feature][column], or written to
// out[row][feature][column]. Returns the first row with a value beyond its bound, or -1; sums then mean nothing.
struct Crosses {
  const Kernel* kernel;
  const int32_t* features;  // [row][feature]
  int64_t n_features;
  double factor;  // a power of two
  const double *center, *bound;
  int64_t add(const Rows& rows, const int64_t* weights, int n_threads, int64_t* sums) const;
  int64_t write(const Rows& rows, int n_threads, int64_t* out) const;
};

}  // namespace sketchlearn
