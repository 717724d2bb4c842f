// Which rows are kept beside a sketch: those of the smallest priority, a number that depends on the row alone.
#pragma once
#include <cstdint>
#include <vector>

#include "kernel.h"
#include "rows.h"

namespace sketchlearn {

// priority = u / ((1 + sum over k of ((x_k - center_k) * scale_k)^2) / 2), u uniform in (0, 1] by a hash of the row;
// u - 1 for rows whose hash is among the certain ones (sorted). docs/reference/arithmetic.md gives the operations.
struct KeepingRule {
  const double *center, *scale;
  int64_t n_features;
  uint64_t key;
  const uint64_t* certain;
  int64_t n_certain;
};

uint64_t hash_row(const Rows& rows, int64_t i, uint64_t key);

void hash_rows(const Rows& rows, uint64_t key, int n_threads, uint64_t* hashes);

// Rows that differ from each other, each with the number of the first one like it, its priority, and how many there are
// (with weights: their sum).
struct Candidates {
  std::vector<int64_t> first, total;
  std::vector<double> priority;
};

// The rows whose priority is below a limit.
Candidates candidates(const Kernel& kernel, const KeepingRule& rule, const Rows& rows, const int64_t* weights, double below,
                      int n_threads);

}  // namespace sketchlearn
