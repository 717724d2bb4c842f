#include "plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "threads.h"

namespace sketchlearn {

constexpr int64_t kGroupRows = 160;  // of a group, on average: 2.5 deviations of that number below a block's rows

int64_t Plan::padded_columns() const {
  const int64_t tile = size_ ? size_ : common_.kernel->tile_columns;
  return (group_columns() + tile - 1) / tile * tile;
}

Plan::Plan(Common common, const float* frequencies)
    : common_(std::move(common)),
      size_(0),
      panels_(common_.n_groups * padded_columns() * n_features()),
      dither_(common_.n_groups * padded_columns()) {
  const int64_t tile = common_.kernel->tile_columns, padded = padded_columns(), group = group_columns();
  for (int64_t j = 0; j < n_columns(); j++) {
    const int64_t to = j / group * padded + j % group;
    float* panel = panels_.get() + to / tile * tile * n_features() + to % tile;
    for (int64_t k = 0; k < n_features(); k++) panel[k * tile] = frequencies[k * n_columns() + j];
    dither_.get()[to] = common_.dither[static_cast<size_t>(j)];
  }
}

Plan::Plan(Common common, const float* signs, const float* radii, int64_t size)
    : common_(std::move(common)), size_(size), dither_(common_.n_groups * padded_columns()) {
  const int64_t all = common_.n_groups * padded_columns();
  signs_.assign(signs, signs + 3 * all);
  radii_.assign(radii, radii + all);
  std::copy(common_.dither.begin(), common_.dither.end(), dither_.get());
}

// One thread's buffers, and the work on one unit of rows.
class Plan::Worker {
 public:
  Worker(const Plan& plan, const Rows& rows, const int64_t* weights, int32_t* out, int64_t written)
      : plan_(plan),
        rows_(rows),
        weights_(weights),
        out_(out),
        written_(written),
        centred_(plan.unit_rows() * plan.n_features()),
        packed_(kBlockRows * plan.n_features()),
        scratch_(plan.size_ ? kStructuredRows * plan.size_ : kBlockRows * plan.common_.kernel->tile_columns),
        order_(static_cast<size_t>(plan.unit_rows())),
        group_(static_cast<size_t>(plan.unit_rows())),
        ends_(static_cast<size_t>(plan.common_.n_groups)),
        block_weights_(weights ? kBlockRows : 0),
        block_out_(out ? static_cast<size_t>(kBlockRows * plan.parts() * plan.group_columns()) : 0) {}

  int64_t take(int64_t from, int64_t to, int64_t* sums) {
    const Domain domain{plan_.common_.center.data(), plan_.common_.radius};
    for (int64_t i = from; i < to; i++)
      if (!centre(rows_, i, domain, row(i - from))) return i;
    sort_by_group(to - from);
    int64_t begin = 0;
    for (int64_t g = 0; g < plan_.common_.n_groups; g++) {
      const int64_t end = ends_[static_cast<size_t>(g)];
      for (; begin < end; begin += kBlockRows)
        take_block(from, g, begin, static_cast<int>(std::min<int64_t>(kBlockRows, end - begin)), sums);
      begin = end;
    }
    return -1;
  }

 private:
  const Plan& plan_;
  const Rows& rows_;
  const int64_t* weights_;
  int32_t* out_;
  int64_t written_;
  Aligned<float> centred_, packed_, scratch_;
  std::vector<int32_t> order_, group_;
  std::vector<int64_t> ends_, block_weights_;
  std::vector<int32_t> block_out_;

  float* row(int64_t i) const { return centred_.get() + i * plan_.n_features(); }

  // Rows sorted by their group of frequencies: order_, and where each group ends in it.
  void sort_by_group(int64_t count) {
    const size_t n = static_cast<size_t>(count);
    if (plan_.common_.n_groups == 1) {
      std::iota(order_.begin(), order_.begin() + count, 0);
      ends_[0] = count;
      return;
    }
    find_groups(count);
    std::fill(ends_.begin(), ends_.end(), 0);
    for (size_t i = 0; i < n; i++) ends_[static_cast<size_t>(group_[i])]++;
    int64_t start = 0;
    for (int64_t& end : ends_) start += std::exchange(end, start);
    for (size_t i = 0; i < n; i++)
      order_[static_cast<size_t>(ends_[static_cast<size_t>(group_[i])]++)] = static_cast<int32_t>(i);
  }

  void find_groups(int64_t count) {
    const int64_t d = plan_.n_features(), n_groups = plan_.common_.n_groups;
    const uint64_t key = plan_.common_.key;
    int64_t i = 0;
    for (; i + 4 <= count; i += 4) groups_of<4>(row(i), d, key, n_groups, group_.data() + i);
    for (; i < count; i++) groups_of<1>(row(i), d, key, n_groups, group_.data() + i);
  }

  // Rows order_[begin .. begin + count), of the unit that starts at row `from`, through group g's frequencies.
  void take_block(int64_t from, int64_t g, int64_t begin, int count, int64_t* sums) {
    const int32_t* order = order_.data() + begin;
    const int64_t group = plan_.group_columns(), first_column = g * group;
    Sink sink;
    sink.part_stride = plan_.n_columns();
    if (sums) sink.sums = sums + first_column;
    if (weights_) {
      for (int i = 0; i < count; i++) block_weights_[static_cast<size_t>(i)] = weights_[from + order[i]];
      sink.weights = block_weights_.data();
    }
    const int64_t here = std::clamp<int64_t>(written_ - first_column, 0, group);
    if (here) {
      sink.rows = block_out_.data();
      sink.row_stride = plan_.parts() * here;
      sink.row_part_stride = sink.row_columns = here;
    }
    run_kernel(g, order, count, sink);
    for (int i = 0; here && i < count; i++)
      for (int part = 0; part < plan_.parts(); part++)
        std::copy_n(sink.rows + i * sink.row_stride + part * here, here,
                    out_ + ((from + order[i]) * plan_.parts() + part) * written_ + first_column);
  }

  // Rows [i, count) in panels of `tile`, column by column, `Together` rows of a panel at a time; returns where it ended.
  template <int Together>
  int pack(const int32_t* order, int i, int count, int tile) {
    const int64_t d = plan_.n_features();
    for (; i + Together <= count; i += Together) {
      const float* x[Together];
      for (int r = 0; r < Together; r++) x[r] = row(order[i + r]);
      float* to = packed_.get() + i / tile * tile * d + i % tile;
      for (int64_t k = 0; k < d; k++)
#pragma GCC unroll 4
        for (int r = 0; r < Together; r++) to[k * tile + r] = x[r][k];
    }
    return i;
  }

  void run_kernel(int64_t g, const int32_t* order, int count, const Sink& sink) {
    const int64_t d = plan_.n_features(), at = g * plan_.padded_columns();
    const std::vector<float>& values = plan_.common_.coefficients;
    const Coefficients given{values.data(), static_cast<int64_t>(values.size()) / (2 * plan_.parts())};
    const Block block{packed_.get(), count, d};
    const int tile = plan_.size_ ? 1 : plan_.common_.kernel->tile_rows;
    const int packed = tile % 4 ? 0 : pack<4>(order, 0, count, tile);
    pack<1>(order, packed, count, tile);
    if (plan_.size_) {
      const StructuredFrequencies frequencies{plan_.signs_.data() + 3 * at, plan_.radii_.data() + at,
                                              plan_.dither_.get() + at, plan_.size_, plan_.group_columns()};
      plan_.common_.kernel->structured(block, frequencies, plan_.common_.feature, given, sink, scratch_.get());
    } else {
      const DenseFrequencies frequencies{plan_.panels_.get() + at * d, plan_.dither_.get() + at, plan_.group_columns()};
      plan_.common_.kernel->dense(block, frequencies, plan_.common_.feature, given, sink, scratch_.get());
    }
  }
};

// Enough rows at a time to nearly fill a block for every group, in at most a few megabytes: nearly, as the few rows beyond
// a full block cost as much as a block does.
int64_t Plan::unit_rows() const {
  if (common_.n_groups == 1) return kBlockRows;
  return kGroupRows * std::clamp<int64_t>((int64_t{1} << 20) / (kGroupRows * n_features()), 1, common_.n_groups);
}

int64_t Plan::add(const Rows& rows, const int64_t* weights, int n_threads, int64_t* sums) const {
  return for_rows(rows.count, unit_rows(), n_threads, parts() * n_columns(), sums,
                  [&] { return Worker(*this, rows, weights, nullptr, 0); });
}

int64_t Plan::write(const Rows& rows, const int64_t* weights, int n_threads, int64_t* sums, int32_t* out,
                    int64_t written) const {
  return for_rows(rows.count, unit_rows(), n_threads, sums ? parts() * n_columns() : 0, sums,
                  [&] { return Worker(*this, rows, weights, out, written); });
}

namespace {

// One thread's scaled rows, and the moments of one unit of them.
struct MomentsWorker {
  const Moments& moments;
  const Rows& rows;
  const int64_t* weights;
  int64_t* out;
  int64_t stride = (rows.n_features + moments.fused + kMomentsPadding - 1) / kMomentsPadding * kMomentsPadding;
  Aligned<double> scaled{kBlockRows * stride};
  std::vector<double> factors{};  // of fused moments

  MomentsWorker(const Moments& moments, const Rows& rows, const int64_t* weights, int64_t* out)
      : moments(moments), rows(rows), weights(weights), out(out) {
    for (int64_t k = 0; moments.fused && k < rows.n_features; k++) factors.push_back(kOddUnit / moments.bound[k]);
  }

  int64_t take(int64_t from, int64_t to, int64_t* sums) {
    const int64_t d = rows.n_features, length = d + d * (d + 1) / 2;
    const auto run = moments.fused ? moments.kernel->fused_moments : moments.kernel->moments;
    if (const int64_t bad = scale_rows(from, to); bad >= 0) return bad;
    if (sums) run(scaled.get(), to - from, stride, d, weights ? weights + from : nullptr, sums);
    for (int64_t i = from; out && i < to; i++)
      run(scaled.get() + (i - from) * stride, 1, stride, d, nullptr, out + i * length);
    return -1;
  }

  // Returns the first row with a value beyond its bound, or -1.
  int64_t scale_rows(int64_t from, int64_t to) {
    if (moments.fused) {
      const char* x = static_cast<const char*>(rows.data) + from * rows.row_stride * (rows.is_double ? 8 : 4);
      const int64_t bad = moments.kernel->odd_rows({x, rows.is_double, to - from, rows.n_features, rows.row_stride,
                                                    rows.column_stride, moments.center, moments.bound, factors.data()},
                                                   stride, scaled.get());
      return bad < 0 ? -1 : from + bad;
    }
    for (int64_t i = from; i < to; i++)
      if (!scale(rows, i, moments.center, moments.bound, scaled.get() + (i - from) * stride)) return i;
    return -1;
  }
};

}  // namespace

int64_t Moments::add(const Rows& rows, const int64_t* weights, int n_threads, int64_t* sums) const {
  const int64_t d = rows.n_features, length = d + d * (d + 1) / 2;
  return for_rows(rows.count, kBlockRows, n_threads, length, sums,
                  [&] { return MomentsWorker{*this, rows, weights, nullptr}; });
}

int64_t Moments::write(const Rows& rows, int n_threads, int64_t* out) const {
  return for_rows(rows.count, kBlockRows, n_threads, 0, nullptr,
                  [&] { return MomentsWorker{*this, rows, nullptr, out}; });
}

}  // namespace sketchlearn
