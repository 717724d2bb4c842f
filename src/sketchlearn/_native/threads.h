// Cuts work into units and runs them on threads, each under the default floating-point environment.
#pragma once
#include <algorithm>
#include <atomic>
#include <cfenv>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace sketchlearn {

// A host that flushes denormals or rounds otherwise must not change a sketch.
class DefaultFloatingPoint {
 public:
  DefaultFloatingPoint() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatingPoint() { std::fesetenv(&before_); }
  DefaultFloatingPoint(const DefaultFloatingPoint&) = delete;
  DefaultFloatingPoint& operator=(const DefaultFloatingPoint&) = delete;

 private:
  std::fenv_t before_;
};

// Calls worker(next) on each thread; next() gives the units 0, 1, ... and then -1. Rethrows the first exception.
template <class Worker>
void on_threads(int64_t units, int n_threads, const Worker& worker) {
  std::atomic<int64_t> counter{0};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto next = [&]() -> int64_t {
    const int64_t unit = counter.fetch_add(1);
    return unit < units ? unit : -1;
  };
  const auto run = [&]() {
    DefaultFloatingPoint environment;
    try {
      worker(next, mutex);
    } catch (...) {
      std::lock_guard<std::mutex> lock(mutex);
      if (!failure) failure = std::current_exception();
      counter.store(units);
    }
  };
  std::vector<std::thread> others;
  const int64_t wanted = std::min<int64_t>(n_threads, units);
  try {
    for (int64_t i = 1; i < wanted; i++) others.emplace_back(run);
  } catch (const std::system_error&) {
    // no more threads to be had: go on with those there are
  }
  run();
  for (std::thread& other : others) other.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace sketchlearn
