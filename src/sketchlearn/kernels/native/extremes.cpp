#include "extremes.h"

#include <mutex>

#include "threads.h"

namespace sketchlearn {
namespace {

constexpr int64_t kRowsPerUnit = 1024;

inline void widen(double value, double& low, double& high) {
  low = value < low ? value : low;
  high = value > high ? value : high;
}

// One thread's range of each column, which joins that of all in the end.
struct ExtremesWorker {
  const Rows& rows;
  std::mutex& mutex;
  double *low, *high;
  std::vector<double> own_low = std::vector<double>(static_cast<size_t>(rows.n_features), HUGE_VAL);
  std::vector<double> own_high = std::vector<double>(static_cast<size_t>(rows.n_features), -HUGE_VAL);

  int64_t take(int64_t from, int64_t to, int64_t*) {
    rows.is_double ? take_as<double>(from, to) : take_as<float>(from, to);
    std::lock_guard<std::mutex> lock(mutex);
    for (int64_t k = 0; k < rows.n_features; k++) {
      low[k] = std::min(low[k], own_low[static_cast<size_t>(k)]);
      high[k] = std::max(high[k], own_high[static_cast<size_t>(k)]);
    }
    return -1;
  }

  template <class T>
  void take_as(int64_t from, int64_t to) {
    double *__restrict lowest = own_low.data(), *__restrict highest = own_high.data();
    for (int64_t i = from; i < to; i++) {
      const T* __restrict x = static_cast<const T*>(rows.data) + i * rows.row_stride;
      if (rows.column_stride == 1)  // compiled for vectors
        for (int64_t k = 0; k < rows.n_features; k++) widen(x[k], lowest[k], highest[k]);
      else
        for (int64_t k = 0; k < rows.n_features; k++) widen(x[k * rows.column_stride], lowest[k], highest[k]);
    }
  }
};

}  // namespace

void extremes(const Rows& rows, int n_threads, double* low, double* high) {
  std::mutex mutex;
  for_rows(rows.count, kRowsPerUnit, n_threads, 0, nullptr, [&] { return ExtremesWorker{rows, mutex, low, high}; });
}

}  // namespace sketchlearn
