#include "cross.h"

#include <algorithm>
#include <vector>

#include "threads.h"

namespace sketchlearn {

namespace {

constexpr int64_t kCrossFeatures = 128;  // at a time, whole panels: they stay in the second cache, beside panels of values

int64_t whole(int64_t n, int64_t tile) { return (n + tile - 1) / tile * tile; }

// Sums in tiles, [panel of columns][feature, in whole panels][column], become sums[feature][column].
void add_tiles(const Crosses& crosses, int64_t d, const int64_t* tiles, int64_t* sums) {
  const int64_t columns = crosses.kernel->cross_columns, padded = whole(crosses.n_features, crosses.kernel->cross_rows);
  for (int64_t k = 0; k < d; k += columns, tiles += padded * columns)
    for (int64_t r = 0; r < crosses.n_features; r++)
      for (int64_t c = k; c < std::min(k + columns, d); c++) sums[r * d + c] += tiles[r * columns + c - k];
}

int64_t tiled_size(const Crosses& crosses, int64_t d) {
  return whole(crosses.n_features, crosses.kernel->cross_rows) * whole(d, crosses.kernel->cross_columns);
}

// One thread's panels, and the products of one unit of records.
class CrossWorker {
 public:
  CrossWorker(const Crosses& crosses, const Rows& rows, const int64_t* weights, int64_t* out)
      : crosses_(crosses),
        rows_(rows),
        weights_(weights),
        out_(out),
        padded_(whole(crosses.n_features, crosses.kernel->cross_rows)),
        features_(static_cast<size_t>(padded_ * kCrossBlock)),
        values_(static_cast<size_t>(kCrossPanels * crosses.kernel->cross_columns * kCrossBlock)),
        tiles_(static_cast<size_t>(out ? tiled_size(crosses, rows.n_features) : 0)) {
    for (int64_t k = 0; k < rows.n_features; k++) factors_.push_back(kOddUnit / crosses.bound[k]);
  }

  // sums: in tiles
  int64_t take(int64_t from, int64_t to, int64_t* sums) {
    if (!out_) return cross(from, to, sums);
    for (int64_t i = from; i < to; i++) {
      std::fill(tiles_.begin(), tiles_.end(), 0);
      if (cross(i, i + 1, tiles_.data()) >= 0) return i;
      add_tiles(crosses_, rows_.n_features, tiles_.data(), out_ + i * crosses_.n_features * rows_.n_features);
    }
    return -1;
  }

 private:
  const Crosses& crosses_;
  const Rows& rows_;
  const int64_t* weights_;
  int64_t* out_;
  int64_t padded_;
  std::vector<double> features_, values_, factors_{};
  std::vector<int64_t> tiles_;

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

  int64_t cross(int64_t from, int64_t to, int64_t* sums) {
    const Kernel& kernel = *crosses_.kernel;
    const int64_t columns = kernel.cross_columns, d = rows_.n_features, size = rows_.is_double ? 8 : 4;
    const int64_t count = to - from, several = kCrossPanels * columns;
    pack_features(from, to);
    int64_t bad = to;
    for (int64_t k = 0; k < d; k += several) {
      const int64_t width = std::min(several, d - k);
      const char* x = static_cast<const char*>(rows_.data) + (from * rows_.row_stride + k * rows_.column_stride) * size;
      const OddValues given{x, rows_.is_double, count, width, rows_.row_stride, rows_.column_stride,
                            crosses_.center + k, crosses_.bound + k, factors_.data() + k};
      const int64_t first = kernel.cross_values(given, values_.data());
      if (first >= 0) bad = std::min(bad, from + first);
      if (bad < to) continue;  // look for earlier rows that other columns refuse
      for (int64_t r = 0; r < padded_; r += kCrossFeatures)
        for (int64_t c = 0; c < width; c += columns)
          kernel.cross({features_.data() + r * count, values_.data() + c * count, count,
                        std::min(kCrossFeatures, padded_ - r), weights_ ? weights_ + from : nullptr},
                       sums + (k + c) * padded_ + r * columns);
    }
    return bad < to ? bad : -1;
  }
};

}  // namespace

int64_t Crosses::add(const Rows& rows, const int64_t* weights, int n_threads, int64_t* sums) const {
  std::vector<int64_t> tiles(static_cast<size_t>(tiled_size(*this, rows.n_features)));
  const int64_t bad = for_rows(rows.count, kCrossBlock, n_threads, static_cast<int64_t>(tiles.size()), tiles.data(),
                               [&] { return CrossWorker(*this, rows, weights, nullptr); });
  add_tiles(*this, rows.n_features, tiles.data(), sums);
  return bad;
}

int64_t Crosses::write(const Rows& rows, int n_threads, int64_t* out) const {
  return for_rows(rows.count, kCrossBlock, n_threads, 0, nullptr,
                  [&] { return CrossWorker(*this, rows, nullptr, out); });
}

}  // namespace sketchlearn
