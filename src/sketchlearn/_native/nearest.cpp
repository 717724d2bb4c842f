#include "nearest.h"

#include <limits>
#include <vector>

#include "threads.h"

namespace sketchlearn {
namespace {

constexpr int64_t kUnitRows = 4096;  // that a thread takes at a time
constexpr int64_t kChunkRows = 64;   // read at a time: a vector cannot be loaded soon after its parts were stored
constexpr int kRowsTogether = 4, kVectors = 2;

template <class T>
class NearestWorker {
 public:
  NearestWorker(const Rows& rows, const Centers& centers, int32_t* labels, double* squares)
      : rows_(rows),
        d_(rows.n_features),
        n_padded_((centers.count + kColumns - 1) / kColumns * kColumns),
        panels_(static_cast<size_t>(n_padded_ * d_)),
        halves_(static_cast<size_t>(n_padded_), std::numeric_limits<T>::infinity()),
        plain_(centers.values, centers.values + centers.count * d_),
        middle_(centers.middle, centers.middle + d_),
        scale_(centers.scale, centers.scale + d_),
        scaled_(static_cast<size_t>(kChunkRows * d_)),
        labels_(labels),
        squares_(squares) {
    for (int64_t c = 0; c < centers.count; c++) {
      double square = 0.0;
      for (int64_t k = 0; k < d_; k++) {
        const double value = centers.values[c * d_ + k];
        panels_[static_cast<size_t>((c / kColumns * d_ + k) * kColumns + c % kColumns)] = static_cast<T>(value);
        square += value * value;
      }
      halves_[static_cast<size_t>(c)] = static_cast<T>(square / 2);
    }
  }

  int64_t take(int64_t from, int64_t to, int64_t*) {
    for (int64_t first = from; first < to; first += kChunkRows) {
      const int64_t end = std::min(first + kChunkRows, to);
      for (int64_t i = first; i < end; i++) read(i, scaled_.data() + tile_of(i - first) + (i - first) % kRowsTogether);
      for (int64_t i = first; i < end; i += kRowsTogether)
        find(i, std::min<int64_t>(kRowsTogether, end - i), scaled_.data() + tile_of(i - first));
    }
    return -1;
  }

 private:
  typedef T Vector __attribute__((vector_size(16)));
  using Label = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  typedef Label Labels __attribute__((vector_size(16)));
  static constexpr int kLanes = 16 / sizeof(T), kColumns = kVectors * kLanes;

  const Rows& rows_;
  int64_t d_, n_padded_;
  std::vector<T> panels_;  // [panel][feature][kColumns]
  std::vector<T> halves_;  // of the centers' squares, infinite beyond the last of them
  std::vector<T> plain_;   // the centers as they are
  std::vector<T> middle_, scale_, scaled_;
  int32_t* labels_;
  double* squares_;

  // Where the rows from i on, which are compared together, begin.
  int64_t tile_of(int64_t i) const { return i / kRowsTogether * kRowsTogether * d_; }

  void read(int64_t i, T* out) const {
    const T* x = static_cast<const T*>(rows_.data) + i * rows_.row_stride;
    for (int64_t k = 0; k < d_; k++) out[k * kRowsTogether] = (x[k * rows_.column_stride] - middle_[k]) * scale_[k];
  }

  // Labels and squares of rows i, i + 1, ..., of which so many are live; they lie in x, [feature][kRowsTogether].
  void find(int64_t i, int64_t live, const T* x) const {
    Vector best[kRowsTogether];
    Labels where[kRowsTogether];
    for (int r = 0; r < kRowsTogether; r++) best[r] = Vector{} + std::numeric_limits<T>::infinity(), where[r] = Labels{};
    for (int64_t c = 0; c < n_padded_; c += kColumns) {
      Vector sum[kRowsTogether][kVectors];
      halves_less_products(x, c, sum);
      for (int v = 0; v < kVectors; v++) {
        Labels at;
        for (int l = 0; l < kLanes; l++) at[l] = static_cast<Label>(c + v * kLanes + l);
        for (int r = 0; r < kRowsTogether; r++) {
          const Labels closer = (Labels)(sum[r][v] < best[r]);  // as a mask: GCC 12 would compare anew for each selection
          best[r] = (Vector)((closer & (Labels)sum[r][v]) | (~closer & (Labels)best[r]));
          where[r] = (closer & at) | (~closer & where[r]);
        }
      }
    }
    Label labels[kRowsTogether];
#pragma GCC unroll 4
    for (int r = 0; r < kRowsTogether; r++) {
      T least = best[r][0];
      labels[r] = where[r][0];
#pragma GCC unroll 4
      for (int l = 1; l < kLanes; l++) {  // without branches: which lane is least is not to be foreseen
        const bool closer = (best[r][l] < least) | ((best[r][l] == least) & (where[r][l] < labels[r]));
        least = closer ? best[r][l] : least;
        labels[r] = closer ? where[r][l] : labels[r];
      }
    }
    double squares[kRowsTogether];
    square(x, labels, squares);
    for (int64_t r = 0; r < live; r++) labels_[i + r] = static_cast<int32_t>(labels[r]), squares_[i + r] = squares[r];
  }

  // The squared distances of rows from their centers: differences first, as those of products would cancel.
  void square(const T* x, const Label* labels, double* out) const {
    double total[kRowsTogether] = {};
    const T* center[kRowsTogether];
    for (int r = 0; r < kRowsTogether; r++) center[r] = plain_.data() + labels[r] * d_;
    for (int64_t k = 0; k < d_; k++)
#pragma GCC unroll 4
      for (int r = 0; r < kRowsTogether; r++) {
        const T away = x[k * kRowsTogether + r] - center[r][k];
        total[r] += static_cast<double>(away * away);
      }
    for (int r = 0; r < kRowsTogether; r++) out[r] = total[r];
  }

  typedef Vector Loaded __attribute__((aligned(sizeof(T)), may_alias));
  static Vector load(const T* from) { return *reinterpret_cast<const Loaded*>(from); }

  // Half a center's square less its product with a row, for the rows at hand and the centers of a panel, from c on: half
  // the squared distance, but for the row's own square.
  void halves_less_products(const T* x, int64_t c, Vector (*sum)[kVectors]) const {
    Vector total[kRowsTogether][kVectors];
#pragma GCC unroll 4
    for (int r = 0; r < kRowsTogether; r++)
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; v++) total[r][v] = load(halves_.data() + c + v * kLanes);
    const T* panel = panels_.data() + c * d_;
    for (int64_t k = 0; k < d_; k++, x += kRowsTogether, panel += kColumns) {
      Vector rows[kRowsTogether / kLanes];
      for (int p = 0; p < kRowsTogether / kLanes; p++) rows[p] = load(x + p * kLanes);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; v++) {
        const Vector center = load(panel + v * kLanes);
#pragma GCC unroll 4
        for (int r = 0; r < kRowsTogether; r++) total[r][v] -= center * rows[r / kLanes][r % kLanes];
      }
    }
    for (int r = 0; r < kRowsTogether; r++)
      for (int v = 0; v < kVectors; v++) sum[r][v] = total[r][v];
  }
};

}  // namespace

void nearest_centers(const Rows& rows, const Centers& centers, int n_threads, int32_t* labels, double* squares) {
  if (rows.is_double)
    for_rows(rows.count, kUnitRows, n_threads, 0, nullptr,
             [&] { return NearestWorker<double>(rows, centers, labels, squares); });
  else
    for_rows(rows.count, kUnitRows, n_threads, 0, nullptr,
             [&] { return NearestWorker<float>(rows, centers, labels, squares); });
}

}  // namespace sketchlearn
