// Cuts rows into units, runs them on threads under the default floating-point environment, and adds up what they sum.
#pragma once
#include <algorithm>
#include <atomic>
#include <cfenv>
#include <cstdint>
#include <exception>
#include <mutex>
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

// make_worker() makes each thread's worker. worker.take(from, to, sums) adds the integers of rows [from, to) to its
// thread's own sums (null if `length` is 0) and returns -1, or the first row outside the domain. Returns the first of
// all those rows, or -1; `sums` then hold what all threads added. Rethrows the first exception.
template <class MakeWorker>
int64_t for_rows(int64_t count, int64_t unit, int n_threads, int64_t length, int64_t* sums, const MakeWorker& make_worker) {
  std::atomic<int64_t> next{0}, first_bad{count};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto run = [&]() {
    DefaultFloatingPoint environment;
    try {
      auto worker = make_worker();
      std::vector<int64_t> local(static_cast<size_t>(length));
      for (int64_t from = next.fetch_add(unit); from < first_bad.load(); from = next.fetch_add(unit)) {
        const int64_t bad = worker.take(from, std::min(from + unit, count), length ? local.data() : nullptr);
        int64_t known = first_bad.load();
        while (bad >= 0 && bad < known && !first_bad.compare_exchange_weak(known, bad)) {
        }
      }
      std::lock_guard<std::mutex> lock(mutex);
      for (int64_t j = 0; j < length; j++) sums[j] += local[static_cast<size_t>(j)];
    } catch (...) {
      std::lock_guard<std::mutex> lock(mutex);
      if (!failure) failure = std::current_exception();
      first_bad.store(-1);  // stop the others
    }
  };
  std::vector<std::thread> others;
  const int64_t wanted = std::min<int64_t>(n_threads, (count + unit - 1) / unit);
  try {
    for (int64_t i = 1; i < wanted; i++) others.emplace_back(run);
  } catch (const std::exception&) {
    // no more threads to be had: go on with those there are
  }
  run();
  for (std::thread& other : others) other.join();
  if (failure) std::rethrow_exception(failure);
  return first_bad.load() < count ? first_bad.load() : -1;
}

}  // namespace sketchlearn
