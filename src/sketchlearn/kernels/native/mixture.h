// Expected statistics of rows under a mixture of Gaussians: what a step of expectation maximisation needs.
#pragma once
#include <cstdint>

#include "kernel.h"
#include "rows.h"

namespace sketchlearn {

// How rows become numbers v, and the Gaussians that are told apart in them.
struct MixtureOfRows {
  const double* center;
  const float* scale;
  GaussianParts parts;
};

// Adds the statistics of rows to sums: the log-likelihood, and [component][count, means, squares]. Returns the first row that is refused, or -1;
// `clipped`: how many were moved onto a bound.
int64_t add_expected_statistics(const Kernel& kernel, const Rows& rows, const MixtureOfRows& mixture, const int64_t* weights,
                                int n_threads, int64_t* sums, int64_t* clipped);

}  // namespace sketchlearn
