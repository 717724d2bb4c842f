#include "keeping.h"

#include <algorithm>

#include "threads.h"

namespace sketchlearn {
namespace {

constexpr int64_t kRowsPerUnit = 4096;
constexpr int kRowsAtOnce = 4;
constexpr double kLargestChance = 0x1p500;  // an infinite one would give different rows the same priority, 0

uint64_t hashed(uint64_t hash, double x) {
  const double value = x + 0.0;  // -0 is +0
  uint64_t word;
  std::memcpy(&word, &value, sizeof word);
  hash = (hash ^ word) * kHashFactor;
  return hash ^ (hash >> kHashShift);
}

uint64_t finished(uint64_t hash) {
  for (const uint64_t factor : kHashEnds) hash = (hash ^ (hash >> kHashEndShift)) * factor;
  return hash ^ (hash >> kHashEndShift);
}

template <class T>
uint64_t hash_as(const Rows& rows, int64_t i, uint64_t key) {
  const T* x = static_cast<const T*>(rows.data) + i * rows.row_stride;
  uint64_t hash = key;
  for (int64_t k = 0; k < rows.n_features; k++) hash = hashed(hash, static_cast<double>(x[k * rows.column_stride]));
  return finished(hash);
}

double priority(const KeepingRule& rule, double square, uint64_t hash) {
  const double u = (static_cast<double>(hash >> 11) + 0.5) * 0x1p-53;
  if (std::binary_search(rule.certain, rule.certain + rule.n_certain, hash)) return u - 1.0;
  const double chance = 0.5 * (1.0 + square);
  return u / (chance < kLargestChance ? chance : kLargestChance);  // and so for NaN
}

// Hashes and priorities of rows [i, i + kRows): each column waits for the one before, so several rows go side by side.
template <class T, int kRows>
void prioritise(const KeepingRule& rule, const Rows& rows, int64_t i, uint64_t* hashes, double* priorities) {
  const T* x = static_cast<const T*>(rows.data) + i * rows.row_stride;
  uint64_t hash[kRows];
  double square[kRows]{};
  std::fill_n(hash, kRows, rule.key);
  for (int64_t k = 0; k < rows.n_features; k++)
#pragma GCC unroll 4
    for (int r = 0; r < kRows; r++) {
      const double value = static_cast<double>(x[r * rows.row_stride + k * rows.column_stride]);
      const double away = (value - rule.center[k]) * rule.scale[k];
      square[r] += away * away;
      hash[r] = hashed(hash[r], value);
    }
  for (int r = 0; r < kRows; r++) {
    hashes[i + r] = finished(hash[r]);
    priorities[i + r] = priority(rule, square[r], hashes[i + r]);
  }
}

// The same of tiles of rows, by a kernel's vectors.
template <class T>
int64_t prioritise_tiles(const Kernel& kernel, const KeepingRule& rule, const Rows& rows, int64_t from, int64_t to,
                         uint64_t* hashes, double* priorities) {
  const int64_t size = kernel.hash_rows;
  std::vector<double> squares(static_cast<size_t>(size));
  for (; to - from >= size; from += size) {
    const T* x = static_cast<const T*>(rows.data) + from * rows.row_stride;
    kernel.hash_tile({x, rows.is_double, rows.n_features, rows.row_stride, rows.column_stride, rule.center, rule.scale,
                      rule.key, hashes + from, squares.data()});
    for (int64_t r = 0; r < size; r++)
      priorities[from + r] = priority(rule, squares[static_cast<size_t>(r)], hashes[from + r]);
  }
  return from;
}

struct HashWorker {
  const Rows& rows;
  uint64_t key;
  uint64_t* hashes;
  int64_t take(int64_t from, int64_t to, int64_t*) const {
    for (int64_t i = from; i < to; i++) hashes[i] = hash_row(rows, i, key);
    return -1;
  }
};

struct PriorityWorker {
  const Kernel& kernel;
  const KeepingRule& rule;
  const Rows& rows;
  uint64_t* hashes;
  double* priorities;
  int64_t take(int64_t from, int64_t to, int64_t*) {
    rows.is_double ? take_as<double>(from, to) : take_as<float>(from, to);
    return -1;
  }
  template <class T>
  void take_as(int64_t from, int64_t to) {
    if (kernel.hash_rows) from = prioritise_tiles<T>(kernel, rule, rows, from, to, hashes, priorities);
    for (; to - from >= kRowsAtOnce; from += kRowsAtOnce) prioritise<T, kRowsAtOnce>(rule, rows, from, hashes, priorities);
    for (; from < to; from++) prioritise<T, 1>(rule, rows, from, hashes, priorities);
  }
};

}  // namespace

uint64_t hash_row(const Rows& rows, int64_t i, uint64_t key) {
  return rows.is_double ? hash_as<double>(rows, i, key) : hash_as<float>(rows, i, key);
}

void hash_rows(const Rows& rows, uint64_t key, int n_threads, uint64_t* hashes) {
  for_rows(rows.count, kRowsPerUnit, n_threads, 0, nullptr, [&] { return HashWorker{rows, key, hashes}; });
}

Candidates candidates(const Kernel& kernel, const KeepingRule& rule, const Rows& rows, const int64_t* weights, double below,
                      int n_threads) {
  std::vector<uint64_t> hashes(static_cast<size_t>(rows.count));
  std::vector<double> priorities(static_cast<size_t>(rows.count));
  for_rows(rows.count, kRowsPerUnit, n_threads, 0, nullptr,
           [&] { return PriorityWorker{kernel, rule, rows, hashes.data(), priorities.data()}; });
  int64_t count = 0;
  for (int64_t i = 0; i < rows.count; i++) count += priorities[i] < below;
  size_t size = 16;
  while (size < 2 * static_cast<size_t>(count)) size *= 2;
  std::vector<int64_t> slots(size, -1);  // by hash, open addressing: which of those found
  Candidates found;
  for (int64_t i = 0; i < rows.count; i++) {
    if (!(priorities[i] < below)) continue;
    const int64_t weight = weights ? weights[i] : 1;
    if (weight == 0) continue;
    size_t slot = hashes[i] & (size - 1);
    while (slots[slot] >= 0 && hashes[found.first[slots[slot]]] != hashes[i]) slot = (slot + 1) & (size - 1);
    if (slots[slot] < 0) {
      slots[slot] = static_cast<int64_t>(found.first.size());
      found.first.push_back(i);
      found.priority.push_back(priorities[i]);
      found.total.push_back(weight);
    } else {
      found.total[slots[slot]] += weight;
    }
  }
  return found;
}

}  // namespace sketchlearn
