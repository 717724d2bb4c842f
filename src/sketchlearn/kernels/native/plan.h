// A sketching plan: frequencies packed for one kernel, ready for any number of rows.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "kernel.h"
#include "rows.h"

namespace sketchlearn {

// Zeroed numbers on a cache-line boundary.
template <class T>
class Aligned {
 public:
  explicit Aligned(int64_t size = 0) {
    const size_t bytes = (static_cast<size_t>(size) * sizeof(T) + 63) / 64 * 64;
    if (bytes == 0) return;
    data_.reset(static_cast<T*>(std::aligned_alloc(64, bytes)));
    if (!data_) throw std::bad_alloc();
    std::memset(data_.get(), 0, bytes);
  }
  T* get() const { return data_.get(); }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T[], Free> data_;
};

class Plan {
 public:
  // What does not depend on how the frequencies are given.
  struct Common {
    const Kernel* kernel;
    Feature feature;
    std::vector<float> center;
    double radius;                    // rows further from the center are refused; infinity: any
    std::vector<float> coefficients;  // see Coefficients
    uint64_t key;                     // of the hash that assigns rows to groups of frequencies
    int64_t n_groups;
    std::vector<float> dither;  // one per frequency
  };
  // frequencies: [feature][column], in turns
  Plan(Common common, const float* frequencies);
  // signs: [block][3][size], radii: [block][size]
  Plan(Common common, const float* signs, const float* radii, int64_t size);

  int64_t n_features() const { return static_cast<int64_t>(common_.center.size()); }
  int64_t n_columns() const { return static_cast<int64_t>(common_.dither.size()); }
  int parts() const { return parts_of(common_.feature); }
  // Adds the integers of all rows (times their weights, if any) to sums[part][column]. Returns the first row outside
  // the domain, or -1; sums then mean nothing.
  int64_t add(const Rows& rows, const int64_t* weights, int n_threads, int64_t* sums) const;
  // Writes the integers of each row at the first `written` columns to out[row][part][column], which must be zero; and adds
  // those of all columns to sums, as `add` does, if there are sums.
  int64_t write(const Rows& rows, const int64_t* weights, int n_threads, int64_t* sums, int32_t* out, int64_t written) const;

 private:
  Common common_;
  int64_t size_;  // of a structured block; 0 for dense frequencies
  Aligned<float> panels_, dither_;
  std::vector<float> signs_, radii_;

  int64_t group_columns() const { return n_columns() / common_.n_groups; }
  int64_t padded_columns() const;  // of one group
  int64_t unit_rows() const;
  class Worker;
};

// First and second moments of y = (x - center) / bound; see Kernel::moments. Adds them up (times their weights, if any), or
// writes each row's to out[row]. Returns the first row outside the bounds, or -1.
struct Moments {
  const Kernel* kernel;
  const double *center, *bound;
  bool fused;  // products are rounded once
  int64_t add(const Rows& rows, const int64_t* weights, int n_threads, int64_t* sums) const;
  int64_t write(const Rows& rows, int n_threads, int64_t* out) const;
};

}  // namespace sketchlearn
