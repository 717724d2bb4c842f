#include "nearest.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "threads.h"

namespace sketchlearn {
namespace {

constexpr int64_t kUnitRows = 4096;  // that a thread takes at a time

template <class T>
class Tiles {
 public:
  Tiles(const Kernel& kernel, const Rows& rows, const Centers& centers)
      : rows_(rows),
        loops_(loops_of(kernel)),
        d_(rows.n_features),
        n_padded_((centers.count + kCentersTogether - 1) / kCentersTogether * kCentersTogether),
        width_(kernel.nearest_rows),
        negative_(static_cast<size_t>(n_padded_ * d_)),
        halves_(static_cast<size_t>(n_padded_), std::numeric_limits<T>::infinity()),
        middle_(centers.middle, centers.middle + d_),
        scale_(centers.scale, centers.scale + d_),
        tile_(static_cast<size_t>(width_ * d_)),
        labels_(static_cast<size_t>(width_)),
        least_(static_cast<size_t>(width_)),
        squares_(static_cast<size_t>(width_)) {
    for (int64_t c = 0; c < centers.count; c++) {
      double square = 0.0;
      for (int64_t k = 0; k < d_; k++) {
        const double value = centers.values[c * d_ + k];
        negative_[static_cast<size_t>(c * d_ + k)] = static_cast<T>(-value);
        square += value * value;
      }
      halves_[static_cast<size_t>(c)] = static_cast<T>(square / 2);
    }
  }

  // Calls use(first, live, labels, least) for rows [from, to), a tile at a time.
  template <class Use>
  void visit(int64_t from, int64_t to, const Use& use) {
    for (int64_t first = from; first < to; first += width_) {
      const int64_t live = std::min(width_, to - first);
      read(first, live);
      loops_.find(tile_.data(), d_, negative_.data(), halves_.data(), n_padded_, labels_.data(), least_.data());
      use(first, live, labels_.data(), least_.data());
    }
  }

  // The squared distances of the tile at hand from its centers.
  const double* squares() {
    loops_.square(tile_.data(), d_, negative_.data(), labels_.data(), squares_.data());
    return squares_.data();
  }

 private:
  const Rows& rows_;
  const NearestLoops<T>& loops_;
  int64_t d_, n_padded_, width_;
  std::vector<T> negative_, halves_;  // beyond the last center, halves are infinite
  std::vector<T> middle_, scale_, tile_;
  std::vector<int32_t> labels_;
  std::vector<T> least_;
  std::vector<double> squares_;

  static const NearestLoops<T>& loops_of(const Kernel& kernel) {
    if constexpr (std::is_same_v<T, float>)
      return kernel.nearest_float;
    else
      return kernel.nearest_double;
  }

  void read(int64_t first, int64_t live) {
    for (int64_t k = 0; k < d_; k++) {
      const T* x = static_cast<const T*>(rows_.data) + first * rows_.row_stride + k * rows_.column_stride;
      const T middle = middle_[static_cast<size_t>(k)], scale = scale_[static_cast<size_t>(k)];
      T* out = tile_.data() + k * width_;
      for (int64_t r = 0; r < live; r++) out[r] = (x[r * rows_.row_stride] - middle) * scale;
    }
  }
};

template <class T>
struct NearestWorker {
  Tiles<T> tiles;
  int32_t* labels;
  double* squares;
  int64_t take(int64_t from, int64_t to, int64_t*) {
    tiles.visit(from, to, [&](int64_t first, int64_t live, const int32_t* found, const T*) {
      std::copy_n(found, live, labels + first);
      std::copy_n(tiles.squares(), live, squares + first);
    });
    return -1;
  }
};

template <class T>
void step_as(const Kernel& kernel, const Rows& rows, const Centers& centers, const double* weights, int32_t* labels,
             double* scores, double* sizes, double* sums) {
  Tiles<T> tiles(kernel, rows, centers);
  const int64_t d = rows.n_features;
  tiles.visit(0, rows.count, [&](int64_t first, int64_t live, const int32_t* found, const T* least) {
    for (int64_t r = 0; r < live; r++) {
      const int64_t i = first + r, c = found[r];
      const T* x = static_cast<const T*>(rows.data) + i * rows.row_stride;
      double* sum = sums + c * d;
      labels[i] = found[r];
      scores[i] = 2.0 * static_cast<double>(least[r]);
      sizes[c] += weights[i];
      for (int64_t k = 0; k < d; k++) sum[k] += weights[i] * static_cast<double>(x[k * rows.column_stride]);
    }
  });
}

}  // namespace

void nearest_centers(const Kernel& kernel, const Rows& rows, const Centers& centers, int n_threads, int32_t* labels,
                     double* squares) {
  if (rows.is_double)
    for_rows(rows.count, kUnitRows, n_threads, 0, nullptr,
             [&] { return NearestWorker<double>{Tiles<double>(kernel, rows, centers), labels, squares}; });
  else
    for_rows(rows.count, kUnitRows, n_threads, 0, nullptr,
             [&] { return NearestWorker<float>{Tiles<float>(kernel, rows, centers), labels, squares}; });
}

void lloyd_step(const Kernel& kernel, const Rows& rows, const Centers& centers, const double* weights, int32_t* labels,
                double* scores, double* sizes, double* sums) {
  DefaultFloatingPoint environment;
  if (rows.is_double)
    step_as<double>(kernel, rows, centers, weights, labels, scores, sizes, sums);
  else
    step_as<float>(kernel, rows, centers, weights, labels, scores, sizes, sums);
}

}  // namespace sketchlearn
