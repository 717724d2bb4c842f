// Cuts rows into units, runs them on threads under the default floating-point environment, and adds up what they sum.
#pragma once
#include <algorithm>
#include <atomic>
#include <cfenv>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
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

// Threads that run one function after another, each too short to start threads for. Thread i of n begins with the pieces i,
// i + n, ..., so that what it read before is in its cache, and then takes what others have not begun: on a busy machine, pieces
// of one that does not get a processor are taken by others. Functions must not throw.
class Team {
 public:
  explicit Team(int n_threads) : size_(std::max(n_threads, 1)), taken_(new std::atomic<int64_t>[static_cast<size_t>(size_)]) {
    try {
      for (int i = 1; i < n_threads; i++) others_.emplace_back([this, i] { work(i); });
    } catch (const std::exception&) {
      // no more threads to be had: go on with those there are
    }
  }
  ~Team() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ended_ = true;
      calls_.fetch_add(1);
    }
    called_.notify_all();
    for (std::thread& other : others_) other.join();
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  template <class Run>
  void run(int64_t n_pieces, const Run& run) {
    const std::function<void(int)> share = [&](int i) {
      for (int j = 0; j < size_; j++) {
        const int own = (i + j) % size_;
        for (int64_t piece; (piece = own + size_ * taken_[own].fetch_add(1)) < n_pieces;) run(piece);
      }
    };
    {
      std::lock_guard<std::mutex> lock(mutex_);
      for (int i = 0; i < size_; i++) taken_[i].store(0);
      function_ = &share;
      calls_.fetch_add(1);
    }
    called_.notify_all();
    DefaultFloatingPoint environment;
    share(0);
    std::unique_lock<std::mutex> lock(mutex_);
    function_ = nullptr;  // who comes now has nothing to do
    lock.unlock();
    look_for([&] { return busy_.load() == 0; });
    lock.lock();
    done_.wait(lock, [&] { return busy_.load() == 0; });
  }

 private:
  const int size_;
  std::unique_ptr<std::atomic<int64_t>[]> taken_;  // of each thread's pieces, how many were begun
  std::mutex mutex_;
  std::condition_variable called_, done_;
  std::atomic<int64_t> calls_{0};
  std::atomic<int> busy_{0};
  const std::function<void(int)>* function_ = nullptr;
  bool ended_ = false;
  std::vector<std::thread> others_;

  template <class Ready>
  static void look_for(const Ready& ready) {  // as sleep and waking take longer than most waits
    constexpr int kLooks = 1 << 14;
    for (int looks = 0; looks < kLooks && !ready(); looks++) {
    }
  }
  void work(int i) {
    DefaultFloatingPoint environment;
    for (int64_t seen = 0;;) {
      const auto called = [&] { return calls_.load() != seen; };
      look_for(called);
      std::unique_lock<std::mutex> lock(mutex_);
      called_.wait(lock, called);
      if (ended_) return;
      seen = calls_.load();
      const std::function<void(int)>* function = function_;
      if (!function) continue;
      busy_.fetch_add(1);
      lock.unlock();
      (*function)(i);
      lock.lock();
      if (busy_.fetch_sub(1) == 1) done_.notify_one();
    }
  }
};

}  // namespace sketchlearn
