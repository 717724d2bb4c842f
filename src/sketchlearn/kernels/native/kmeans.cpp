#include "kmeans.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

#include "directions.h"
#include "threads.h"

namespace sketchlearn {
namespace {

constexpr int64_t kUnitRows = 4096;                            // that a thread takes at a time
constexpr int64_t kMostPieces = 16, kSmallestPiece = 16 * kBlockRows;  // of rows, whose sums are added up in order
constexpr int64_t kMostSums = 1 << 23;       // of all pieces together
constexpr int64_t kWorkPerThread = 1 << 20;  // multiply-adds: fewer cost less than starting a thread
constexpr int64_t kWorkToRead = 8;           // multiply-adds that take as long as reading a value

template <class S>
const KMeansLoops<S>& loops_of(const Kernel& kernel) {
  if constexpr (std::is_same_v<S, float>)
    return kernel.kmeans_float;
  else
    return kernel.kmeans_double;
}

// Centers as find_cells reads them.
template <class S>
class Panels {
 public:
  Panels(const Kernel& kernel, const Centers& centers, int64_t d)
      : lanes_(kernel.cell_lanes * static_cast<int64_t>(sizeof(float)) / static_cast<int64_t>(sizeof(S))),
        depth_(rounded_up(d, std::max<int64_t>(kernel.columns_at_once * lanes_ / kernel.cell_lanes, 1))),
        panels_(in_panels<S>(kernel, centers.count, lanes_, d, depth_,
                             [&](int64_t c, int64_t k) { return static_cast<S>(centers.values[c * d + k]); })),
        halves_(static_cast<size_t>(rounded_up(centers.count, lanes_)), std::numeric_limits<S>::infinity()) {
    for (int64_t c = 0; c < centers.count; c++) {
      const double* own = centers.values + c * d;
      halves_[static_cast<size_t>(c)] = static_cast<S>(std::inner_product(own, own + d, own, 0.0) / 2);
    }
  }
  int64_t depth() const { return depth_; }
  CellPoints<S> points() const { return {panels_.data(), halves_.data(), static_cast<int64_t>(halves_.size()), depth_}; }

 private:
  const int64_t lanes_, depth_;
  std::vector<S> panels_, halves_;
};

template <class S>
class NearestWorker {
 public:
  NearestWorker(const Kernel& kernel, const Rows& rows, const Centers& centers, const Panels<S>& panels, int32_t* labels,
                double* squares)
      : kernel_(kernel),
        rows_(rows),
        centers_(centers.values, centers.values + centers.count * rows.n_features),
        middle_(centers.middle, centers.middle + rows.n_features),
        scale_(centers.scale, centers.scale + rows.n_features),
        panels_(panels),
        stride_(panels.depth()),
        block_(rows_of_block(kernel, stride_)),
        values_(static_cast<size_t>(block_ * stride_)),
        labels_(labels),
        squares_(squares) {}

  int64_t take(int64_t from, int64_t to, int64_t*) {
    const int64_t d = rows_.n_features;
    for (int64_t first = from; first < to; first += block_) {
      const int64_t count = std::min(block_, to - first);
      for (int64_t r = 0; r < count; r++) {
        const S* x = static_cast<const S*>(rows_.data) + (first + r) * rows_.row_stride;
        S* out = values_.data() + r * stride_;
        for (int64_t k = 0; k < d; k++) out[k] = (x[k * rows_.column_stride] - middle_[k]) * scale_[k];
      }
      if constexpr (std::is_same_v<S, float>)
        kernel_.find_cells(values_.data(), count, stride_, panels_.points(), labels_ + first);
      else
        kernel_.find_double_cells(values_.data(), count, stride_, panels_.points(), labels_ + first);
      for (int64_t r = 0; r < count; r++) {  // differences first, as those of products would cancel
        const S *x = values_.data() + r * stride_, *center = centers_.data() + labels_[first + r] * d;
        double square = 0.0;
        for (int64_t k = 0; k < d; k++) {
          const S away = x[k] - center[k];
          square += static_cast<double>(away * away);
        }
        squares_[first + r] = square;
      }
    }
    return -1;
  }

 private:
  const Kernel& kernel_;
  const Rows& rows_;
  const std::vector<S> centers_, middle_, scale_;
  const Panels<S>& panels_;
  const int64_t stride_, block_;
  std::vector<S> values_;
  int32_t* labels_;
  double* squares_;
};

template <class S>
void nearest_as(const Kernel& kernel, const Rows& rows, const Centers& centers, int n_threads, int32_t* labels, double* squares) {
  const Panels<S> panels(kernel, centers, rows.n_features);
  for_rows(rows.count, kUnitRows, n_threads, 0, nullptr,
           [&] { return NearestWorker<S>(kernel, rows, centers, panels, labels, squares); });
}

// Calls run(piece) for each, on threads.
template <class Run>
void for_pieces(int64_t n_pieces, int n_threads, const Run& run) {
  struct Worker {
    const Run& run;
    int64_t take(int64_t from, int64_t to, int64_t*) {
      for (int64_t piece = from; piece < to; piece++) run(piece);
      return -1;
    }
  };
  for_rows(n_pieces, 1, n_threads, 0, nullptr, [&] { return Worker{run}; });
}

template <class S>
class RowsOf : public KMeansRows {
 public:
  RowsOf(const Kernel& kernel, const Given& given)
      : KMeansRows(given.rows.count, given.rows.n_features),
        loops_(loops_of<S>(kernel)),
        stride_(rounded_up(n_features_ + 1, kernel.cell_lanes)),
        padded_(rounded_up(count_, kBlockRows)),
        values_(static_cast<size_t>(padded_ * stride_)),
        tiles_(static_cast<size_t>(padded_ * n_features_)),
        lengths_(static_cast<size_t>(padded_)),
        weights_(static_cast<size_t>(padded_)) {
    given.rows.is_double ? read<double>(given) : read<float>(given);
  }

  void starts(int64_t k, const double* uniforms, int64_t n_candidates, int n_threads, int64_t* positions) const override;
  double lloyd(double* centers, int64_t k, double tolerance, int64_t most_steps, int n_threads) const override;
  void assign(const double* centers, int64_t k, int n_threads, int32_t* labels, double* squares) const override;
  void removal_costs(const double* centers, int64_t k, int n_threads, double* costs) const override;

 private:
  const KMeansLoops<S>& loops_;
  const int64_t stride_, padded_;  // stride: whole vectors, after a column of ones; padded: whole blocks
  std::vector<S> values_, tiles_, lengths_, weights_;  // values: [row][stride]; beyond the last row all are zeros
  double squares_ = 0.0;  // the weighted sum of all rows' squares

  template <class T>
  void read(const Given& given) {
    std::vector<double> squares(static_cast<size_t>((count_ + kSmallestPiece - 1) / kSmallestPiece));
    for_pieces(static_cast<int64_t>(squares.size()), threads_for(count_ * n_features_ * kWorkToRead, given.n_threads), [&](int64_t piece) {
      const int64_t from = piece * kSmallestPiece;
      squares[static_cast<size_t>(piece)] = read_some<T>(given, from, std::min(from + kSmallestPiece, count_));
    });
    squares_ = std::accumulate(squares.begin(), squares.end(), 0.0);
  }
  template <class T>
  double read_some(const Given& given, int64_t from, int64_t to) {
    const Rows& rows = given.rows;
    const int64_t width = loops_.tile_rows;
    double total = 0.0;
    for (int64_t r = from; r < to; r++) {
      const T* x = static_cast<const T*>(rows.data) + r * rows.row_stride;
      S *row = values_.data() + r * stride_, *tile = tiles_.data() + r / width * width * n_features_ + r % width;
      double square = 0.0;
      for (int64_t k = 0; k < n_features_; k++) {
        const S v = row[k] = static_cast<S>((static_cast<double>(x[k * rows.column_stride]) - given.middle[k]) * given.scale);
        tile[k * width] = v;
        square += static_cast<double>(v) * static_cast<double>(v);
      }
      row[n_features_] = S{1};  // whose weighted sum is that of the weights
      lengths_[static_cast<size_t>(r)] = static_cast<S>(square);
      weights_[static_cast<size_t>(r)] = static_cast<S>(given.weights[r]);
      total += given.weights[r] * square;
    }
    return total;
  }

  struct List {
    std::vector<S> negative, halves;
    CenterList<S> centers() const { return {negative.data(), halves.data(), static_cast<int64_t>(halves.size())}; }
  };
  template <class T>
  List list_of(const T* centers, int64_t k, int64_t padded_to) const {
    const int64_t d = n_features_, n = rounded_up(k, padded_to);
    List found{std::vector<S>(static_cast<size_t>(n * d)), std::vector<S>(static_cast<size_t>(n), std::numeric_limits<S>::infinity())};
    for (int64_t c = 0; c < k; c++) {
      double square = 0.0;
      for (int64_t j = 0; j < d; j++) {
        const double value = static_cast<double>(centers[c * d + j]);
        found.negative[static_cast<size_t>(c * d + j)] = static_cast<S>(-value);
        square += value * value;
      }
      found.halves[static_cast<size_t>(c)] = static_cast<S>(square / 2);
    }
    return found;
  }
  const S* row(int64_t r) const { return values_.data() + r * stride_; }
  const S* tile_at(int64_t r) const { return tiles_.data() + r * n_features_; }
  int64_t tiles_of(int64_t count) const { return (count + loops_.tile_rows - 1) / loops_.tile_rows; }
  // Calls use(first, count, labels, least, second) for the blocks of rows [from, to).
  template <bool Second, class Use>
  void visit(int64_t from, int64_t to, const List& list, const Use& use) const {
    int32_t labels[kBlockRows];
    S least[kBlockRows], second[kBlockRows];
    for (int64_t first = from; first < to; first += kBlockRows) {
      const int64_t count = std::min<int64_t>(kBlockRows, to - first);
      loops_.nearest(tile_at(first), tiles_of(count), n_features_, list.centers(), labels, least, Second ? second : nullptr);
      use(first, count, labels, least, second);
    }
  }
  // Rows in pieces, each of which adds `length` numbers up on its own: run(from, to, sums).
  template <class Run>
  std::vector<double> sum_pieces(int64_t length, int n_threads, const Run& run) const {
    const int64_t wanted = std::min(kMostPieces, kMostSums / std::max<int64_t>(length, 1));
    const int64_t n_pieces = std::clamp<int64_t>(count_ / kSmallestPiece, 1, std::max<int64_t>(wanted, 1));
    const int64_t rows = rounded_up((count_ + n_pieces - 1) / n_pieces, kBlockRows);
    std::vector<double> sums(static_cast<size_t>(n_pieces * length));
    for_pieces(n_pieces, n_threads, [&](int64_t piece) {
      run(std::min(piece * rows, count_), std::min((piece + 1) * rows, count_), sums.data() + piece * length);
    });
    for (int64_t piece = 1; piece < n_pieces; piece++)
      for (int64_t i = 0; i < length; i++) sums[static_cast<size_t>(i)] += sums[static_cast<size_t>(piece * length + i)];
    sums.resize(static_cast<size_t>(length));
    return sums;
  }
  int threads_for(int64_t work, int n_threads) const {  // work: multiply-adds of all rows
    return static_cast<int>(std::clamp<int64_t>(work / kWorkPerThread, 1, n_threads));
  }
  int64_t drawn(const std::vector<double>& before, const std::vector<S>& squares, double uniform) const;
  void fill(const std::vector<int64_t>& empty, int64_t k, int n_threads, double* centers) const;
};

// The row at which a share of all weighted squares is reached; `before`: those of the blocks before each, and of all.
template <class S>
int64_t RowsOf<S>::drawn(const std::vector<double>& before, const std::vector<S>& squares, double uniform) const {
  const double wanted = uniform * before.back();
  const int64_t block = std::clamp<int64_t>(std::upper_bound(before.begin(), before.end(), wanted) - before.begin() - 1, 0,
                                            static_cast<int64_t>(before.size()) - 2);
  double sum = before[static_cast<size_t>(block)];
  int64_t r = block * kBlockRows, last = std::min(r + kBlockRows, count_) - 1;
  for (; r < last; r++) {
    sum += static_cast<double>(weights_[static_cast<size_t>(r)]) * static_cast<double>(squares[static_cast<size_t>(r)]);
    if (sum > wanted) break;
  }
  return r;
}

template <class S>
void RowsOf<S>::starts(int64_t k, const double* uniforms, int64_t n_candidates, int n_threads, int64_t* positions) const {
  const int64_t d = n_features_, n_blocks = padded_ / kBlockRows;
  std::vector<S> squares(static_cast<size_t>(padded_), S{1});  // of distances to the nearest point so far
  std::vector<S> candidates(static_cast<size_t>(n_candidates * d));
  std::vector<double> of_blocks(static_cast<size_t>(n_blocks)), before(static_cast<size_t>(n_blocks + 1));
  const int64_t blocks_at_once = std::max<int64_t>(1, kWorkPerThread / (kBlockRows * (d + 8) * kMostCandidates));
  const int64_t n_pieces = (n_blocks + blocks_at_once - 1) / blocks_at_once;
  std::vector<double> totals(static_cast<size_t>(n_pieces * kMostCandidates));
  Team team(static_cast<int>(std::min<int64_t>(n_threads, n_pieces)));
  const auto each_piece = [&](const auto& run) {
    team.run(n_pieces, [&](int64_t piece) {
      const int64_t from = piece * blocks_at_once, to = std::min(n_blocks, from + blocks_at_once);
      run(piece, from * kBlockRows, (to - from) * kBlockRows / loops_.tile_rows);
    });
  };
  const auto sum_blocks = [&](int64_t, int64_t first, int64_t n_tiles) {
    for (int64_t b = first / kBlockRows; b * kBlockRows < first + n_tiles * loops_.tile_rows; b++) {
      S sum[8]{};  // several sums, as one would wait for each addition
      for (int64_t r = b * kBlockRows; r < (b + 1) * kBlockRows; r++)
        sum[r % 8] += weights_[static_cast<size_t>(r)] * squares[static_cast<size_t>(r)];
      of_blocks[static_cast<size_t>(b)] = static_cast<double>(std::accumulate(sum, sum + 8, S{}));
    }
  };
  each_piece(sum_blocks);
  for (int64_t i = 0; i < k; i++, uniforms += n_candidates) {
    std::partial_sum(of_blocks.begin(), of_blocks.end(), before.begin() + 1);
    const int64_t tried = i ? n_candidates : 1;  // the first point has no other to be far from
    int64_t found[kMostCandidates];
    for (int64_t c = 0; c < tried; c++) {
      found[c] = drawn(before, squares, uniforms[c]);
      std::copy_n(row(found[c]), d, candidates.data() + c * d);
    }
    int64_t best = 0;
    if (i == 0) {
      std::fill(squares.begin(), squares.end(), std::numeric_limits<S>::infinity());
    } else {
      const List list = list_of(candidates.data(), tried, kMostCandidates);
      std::fill(totals.begin(), totals.end(), 0.0);
      each_piece([&](int64_t piece, int64_t r, int64_t n_tiles) {
        loops_.add_candidate_costs(tile_at(r), n_tiles, d, list.centers(), lengths_.data() + r, squares.data() + r,
                                   weights_.data() + r, totals.data() + piece * kMostCandidates);
      });
      for (int64_t piece = 1; piece < n_pieces; piece++)
        for (int64_t c = 0; c < tried; c++) totals[static_cast<size_t>(c)] += totals[static_cast<size_t>(piece * kMostCandidates + c)];
      best = std::min_element(totals.begin(), totals.begin() + tried) - totals.begin();
    }
    positions[i] = found[best];
    const List point = list_of(candidates.data() + best * d, 1, 1);
    each_piece([&](int64_t piece, int64_t r, int64_t n_tiles) {
      loops_.lower_squares(tile_at(r), n_tiles, d, point.centers(), lengths_.data() + r, squares.data() + r);
      sum_blocks(piece, r, n_tiles);
    });
  }
}

template <class S>
double RowsOf<S>::lloyd(double* centers, int64_t k, double tolerance, int64_t most_steps, int n_threads) const {
  const int64_t d = n_features_, width = stride_;
  std::vector<int32_t> labels(static_cast<size_t>(tolerance > 0 ? 0 : padded_), -1);
  double cost = std::numeric_limits<double>::infinity();
  for (int64_t step = 0; step <= most_steps; step++) {
    const List list = list_of(centers, k, 4);
    // sums of clusters, the cost, and how many rows changed their cluster
    const std::vector<double> sums = sum_pieces(k * width + 2, threads_for(count_ * k * d, n_threads), [&](int64_t from, int64_t to, double* own) {
      visit<false>(from, to, list, [&](int64_t first, int64_t count, const int32_t* found, const S* least, const S*) {
        const S* weights = weights_.data() + first;
        S half[8]{};  // several sums, as one would wait for each addition
        for (int64_t r = 0; r < count; r++) half[r % 8] += weights[r] * least[r];
        own[k * width] += 2.0 * static_cast<double>(std::accumulate(half, half + 8, S{}));
        loops_.add(row(first), count, stride_, found, weights, own);
        for (int64_t r = 0; r < count && !labels.empty(); r++) {
          own[k * width + 1] += labels[static_cast<size_t>(first + r)] != found[r];
          labels[static_cast<size_t>(first + r)] = found[r];
        }
      });
    });
    const double last = cost;
    cost = squares_ + sums[static_cast<size_t>(k * width)];
    const bool settled = labels.empty() ? last - cost <= tolerance * std::max(cost, 0.0) : sums.back() == 0.0;
    if (settled || step == most_steps) break;
    std::vector<int64_t> empty;
    for (int64_t c = 0; c < k; c++)
      if (!(sums[static_cast<size_t>(c * width + d)] > 0.0)) empty.push_back(c);
    if (!empty.empty()) fill(empty, k, n_threads, centers);
    for (int64_t c = 0; c < k; c++) {
      const double* own = sums.data() + c * width;
      for (int64_t j = 0; j < d && own[d] > 0.0; j++) centers[c * d + j] = own[j] / own[d];
    }
  }
  return std::max(cost, 0.0);
}

// Moves clusters without rows to the rows that lie farthest from these centers.
template <class S>
void RowsOf<S>::fill(const std::vector<int64_t>& empty, int64_t k, int n_threads, double* centers) const {
  std::vector<int32_t> labels(static_cast<size_t>(count_));
  std::vector<double> squares(static_cast<size_t>(count_));
  assign(centers, k, n_threads, labels.data(), squares.data());
  std::vector<int64_t> order(static_cast<size_t>(count_));
  std::iota(order.begin(), order.end(), 0);
  const int64_t n = std::min<int64_t>(static_cast<int64_t>(empty.size()), count_);
  const auto cost = [&](int64_t r) { return weights_[static_cast<size_t>(r)] * squares[static_cast<size_t>(r)]; };
  std::partial_sort(order.begin(), order.begin() + n, order.end(),
                    [&](int64_t i, int64_t j) { return cost(i) != cost(j) ? cost(i) > cost(j) : i < j; });
  for (int64_t i = 0; i < n; i++) std::copy_n(row(order[static_cast<size_t>(i)]), n_features_, centers + empty[static_cast<size_t>(i)] * n_features_);
}

template <class S>
void RowsOf<S>::assign(const double* centers, int64_t k, int n_threads, int32_t* labels, double* squares) const {
  const List list = list_of(centers, k, 4);
  const int64_t unit = kSmallestPiece, n_pieces = (count_ + unit - 1) / unit;
  for_pieces(n_pieces, threads_for(count_ * k * n_features_, n_threads), [&](int64_t piece) {
    visit<false>(piece * unit, std::min((piece + 1) * unit, count_), list,
                 [&](int64_t first, int64_t count, const int32_t* found, const S* least, const S*) {
                   std::copy_n(found, count, labels + first);
                   for (int64_t r = 0; r < count; r++)
                     squares[first + r] = std::max(0.0, static_cast<double>(lengths_[static_cast<size_t>(first + r)] + 2 * least[r]));
                 });
  });
}

template <class S>
void RowsOf<S>::removal_costs(const double* centers, int64_t k, int n_threads, double* costs) const {
  const List list = list_of(centers, k, 4);
  const std::vector<double> sums = sum_pieces(k, threads_for(count_ * k * n_features_, n_threads), [&](int64_t from, int64_t to, double* own) {
    visit<true>(from, to, list, [&](int64_t first, int64_t count, const int32_t* found, const S* least, const S* second) {
      for (int64_t r = 0; r < count; r++)
        own[found[r]] += static_cast<double>(weights_[static_cast<size_t>(first + r)] * 2 * (second[r] - least[r]));
    });
  });
  std::copy(sums.begin(), sums.end(), costs);
}

}  // namespace

void nearest_centers(const Kernel& kernel, const Rows& rows, const Centers& centers, int n_threads, int32_t* labels,
                     double* squares) {
  (rows.is_double ? nearest_as<double> : nearest_as<float>)(kernel, rows, centers, n_threads, labels, squares);
}

std::unique_ptr<KMeansRows> KMeansRows::of(const Kernel& kernel, const Given& given, bool in_float64) {
  if (in_float64) return std::make_unique<RowsOf<double>>(kernel, given);
  return std::make_unique<RowsOf<float>>(kernel, given);
}

}  // namespace sketchlearn
