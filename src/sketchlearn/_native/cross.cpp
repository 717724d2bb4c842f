#include "cross.h"

#include <algorithm>
#include <vector>

#include "threads.h"

namespace sketchlearn {

namespace {

// One thread's panels, and the products of one unit of records.
class CrossWorker {
 public:
  CrossWorker(const Crosses& crosses, const Rows& rows, const int64_t* weights, int64_t* out)
      : crosses_(crosses),
        rows_(rows),
        weights_(weights),
        out_(out),
        features_(static_cast<size_t>(padded() * kCrossBlock)),
        values_(static_cast<size_t>(crosses.kernel->cross_columns * kCrossBlock)) {
    for (int64_t k = 0; k < rows.n_features; k++) factors_.push_back(kOddUnit / crosses.bound[k]);
  }

  int64_t take(int64_t from, int64_t to, int64_t* sums) {
    if (!out_) return cross(from, to, weights_, sums);
    for (int64_t i = from; i < to; i++) {
      const int64_t bad = cross(i, i + 1, nullptr, out_ + i * crosses_.n_features * rows_.n_features);
      if (bad >= 0) return bad;
    }
    return -1;
  }

 private:
  const Crosses& crosses_;
  const Rows& rows_;
  const int64_t* weights_;
  int64_t* out_;
  std::vector<double> features_, values_, factors_;

  int64_t padded() const {
    const int64_t tile = crosses_.kernel->cross_rows;
    return (crosses_.n_features + tile - 1) / tile * tile;
  }

  // Features of records [from, to) in panels.
  void pack_features(int64_t from, int64_t to) {
    const int64_t tile = crosses_.kernel->cross_rows, n = crosses_.n_features, count = to - from;
    for (int64_t first = 0; first < n; first += tile) {
      const int64_t width = std::min(tile, n - first);
      double* panel = features_.data() + first * count;
      for (int64_t i = from; i < to; i++, panel += tile) {
        const int32_t* x = crosses_.features + i * n + first;
        for (int64_t r = 0; r < width; r++) panel[r] = x[r] * crosses_.factor;
        for (int64_t r = width; r < tile; r++) panel[r] = 0.0;
      }
    }
  }

  int64_t cross(int64_t from, int64_t to, const int64_t* weights, int64_t* sums) {
    const int64_t columns = crosses_.kernel->cross_columns, d = rows_.n_features, size = rows_.is_double ? 8 : 4;
    pack_features(from, to);
    int64_t bad = to;
    for (int64_t k = 0; k < d; k += columns) {
      const int64_t width = std::min(columns, d - k);
      const char* x = static_cast<const char*>(rows_.data) + (from * rows_.row_stride + k * rows_.column_stride) * size;
      const CrossValues given{x, rows_.is_double, to - from, width, rows_.row_stride, rows_.column_stride,
                              crosses_.center + k, crosses_.bound + k, factors_.data() + k};
      const int64_t first = crosses_.kernel->cross_values(given, values_.data());
      if (first >= 0) bad = std::min(bad, from + first);
      if (bad < to) continue;  // sums mean nothing any more; another column may refuse an earlier row
      const CrossBlock block{features_.data(), values_.data(), to - from, crosses_.n_features, width, d,
                             weights ? weights + from : nullptr};
      crosses_.kernel->cross(block, sums + k);
    }
    return bad < to ? bad : -1;
  }
};

}  // namespace

int64_t Crosses::add(const Rows& rows, const int64_t* weights, int n_threads, int64_t* sums) const {
  return for_rows(rows.count, kCrossBlock, n_threads, n_features * rows.n_features, sums,
                  [&] { return CrossWorker(*this, rows, weights, nullptr); });
}

int64_t Crosses::write(const Rows& rows, int n_threads, int64_t* out) const {
  return for_rows(rows.count, kCrossBlock, n_threads, 0, nullptr,
                  [&] { return CrossWorker(*this, rows, nullptr, out); });
}

}  // namespace sketchlearn
