// A sketching plan: frequencies packed for one kernel, ready for any number of rows.
#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "kernel.h"
#include "rows.h"

namespace sketchlearn {

// Zeroed floats on a cache-line boundary.
class AlignedFloats {
 public:
  explicit AlignedFloats(int64_t size = 0);
  float* get() const { return data_.get(); }

 private:
  struct Free {
    void operator()(float* p) const;
  };
  std::unique_ptr<float[], Free> data_;
};

class Plan {
 public:
  const Kernel* kernel;
  Wave wave;
  int64_t n_features, n_columns;
  std::vector<float> center;
  double limit = 0x1p60, radius = std::numeric_limits<double>::infinity();
  std::vector<float> series;  // see Series
  uint64_t key = 0;           // of the hash that assigns rows to groups of frequencies
  int64_t n_groups = 1;

  // frequencies: [n_features][n_columns], in turns
  void set_dense(const float* frequencies, const float* dither);
  // signs: [block][3][size], radii: [block][size]
  void set_structured(const float* signs, const float* radii, const float* dither, int64_t size);

  int parts() const { return kernel->parts(wave); }
  // Adds the integers of all rows (times their weights, if any) to sums[part][column]. Returns the first row outside
  // the domain, or -1; sums then mean nothing.
  int64_t add(const Rows& rows, const int64_t* weights, int n_threads, int64_t* sums) const;
  // Writes the integers of each row to out[row][part][column], which must be zero.
  int64_t write(const Rows& rows, int n_threads, int32_t* out) const;

 private:
  AlignedFloats panels_, dither_;
  std::vector<float> signs_, radii_;
  int64_t size_ = 0;  // of a structured block; 0 for dense frequencies

  int64_t group_columns() const { return n_columns / n_groups; }
  int64_t padded_columns() const;  // of one group
  int64_t run(const Rows& rows, const int64_t* weights, int n_threads, int64_t* sums, int32_t* out) const;
  class Worker;
};

// First and second moments of y = (x - center) / bound; see Kernel::moments. Returns the first row outside, or -1.
int64_t add_moments(const Kernel* kernel, const Rows& rows, const double* center, const double* bound,
                    const int64_t* weights, int n_threads, int64_t* sums);

}  // namespace sketchlearn
