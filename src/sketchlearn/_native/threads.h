// Cuts rows into units, runs them on threads under the default floating-point environment, and adds up what they sum.
#pragma once
#include <algorithm>
#include <atomic>
#include <cfenv>
#include <cstdint>
#include <exception>
#include <functional>
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

// Threads that run one function after another, each too short to start threads for: they wait in turns of their own. Thread i of
// n takes the pieces i, i + n, ..., so that what it read before is in its cache. Functions must not throw.
class Team {
 public:
  explicit Team(int n_threads) {
    try {
      for (int i = 1; i < n_threads; i++) others_.emplace_back([this, i] { work(i); });
    } catch (const std::exception&) {
      // no more threads to be had: go on with those there are
    }
    size_.store(static_cast<int>(others_.size()) + 1, std::memory_order_release);
  }
  ~Team() {
    function_ = nullptr;
    calls_.fetch_add(1, std::memory_order_release);
    for (std::thread& other : others_) other.join();
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  template <class Run>
  void run(int64_t n_pieces, const Run& run) {
    const int size = size_.load(std::memory_order_relaxed);
    const std::function<void(int)> mine = [&](int i) {
      for (int64_t piece = i; piece < n_pieces; piece += size) run(piece);
    };
    function_ = &mine;
    busy_.store(size - 1, std::memory_order_relaxed);
    calls_.fetch_add(1, std::memory_order_release);
    DefaultFloatingPoint environment;
    mine(0);
    wait([&] { return busy_.load(std::memory_order_acquire) == 0; });
  }

 private:
  std::vector<std::thread> others_;
  std::atomic<int> size_{0}, busy_{0};
  std::atomic<int64_t> calls_{0};
  const std::function<void(int)>* function_ = nullptr;

  template <class Ready>
  static void wait(const Ready& ready) {
    constexpr int kPatience = 1 << 12;  // looks, some microseconds, before others may use the processor
    for (int looks = 0; !ready(); looks++)
      if (looks >= kPatience) std::this_thread::yield();
  }
  void work(int i) {
    DefaultFloatingPoint environment;
    for (int64_t seen = 0;;) {
      wait([&] { return calls_.load(std::memory_order_acquire) != seen; });
      seen++;
      if (!function_) return;
      (*function_)(i);
      busy_.fetch_sub(1, std::memory_order_release);
    }
  }
};

}  // namespace sketchlearn
