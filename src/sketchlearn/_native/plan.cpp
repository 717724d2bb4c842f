#include "plan.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "threads.h"

namespace sketchlearn {

AlignedFloats::AlignedFloats(int64_t size) {
  const size_t bytes = (static_cast<size_t>(size) * sizeof(float) + 63) / 64 * 64;
  if (bytes == 0) return;
  data_.reset(static_cast<float*>(std::aligned_alloc(64, bytes)));
  if (!data_) throw std::bad_alloc();
  std::memset(data_.get(), 0, bytes);
}

void AlignedFloats::Free::operator()(float* p) const { std::free(p); }

int64_t Plan::padded_columns() const {
  const int64_t tile = size_ ? size_ : kernel->tile_columns;
  return (group_columns() + tile - 1) / tile * tile;
}

void Plan::set_dense(const float* frequencies, const float* dither) {
  const int64_t tile = kernel->tile_columns, padded = padded_columns(), group = group_columns();
  panels_ = AlignedFloats(n_groups * padded * n_features);
  dither_ = AlignedFloats(n_groups * padded);
  for (int64_t j = 0; j < n_columns; j++) {
    const int64_t to = j / group * padded + j % group;
    float* panel = panels_.get() + to / tile * tile * n_features + to % tile;
    for (int64_t k = 0; k < n_features; k++) panel[k * tile] = frequencies[k * n_columns + j];
    dither_.get()[to] = dither[j];
  }
}

void Plan::set_structured(const float* signs, const float* radii, const float* dither, int64_t size) {
  size_ = size;
  const int64_t all = n_groups * padded_columns();
  signs_.assign(signs, signs + 3 * all);
  radii_.assign(radii, radii + all);
  dither_ = AlignedFloats(all);
  std::memcpy(dither_.get(), dither, static_cast<size_t>(n_columns) * sizeof(float));
}

// One thread's buffers, and the work on one unit of rows.
class Plan::Worker {
 public:
  Worker(const Plan& plan, int64_t unit_rows)
      : plan_(plan),
        centred_(unit_rows * plan.n_features),
        packed_(kBlockRows * plan.n_features),
        scratch_(plan.size_ ? kStructuredRows * plan.size_ : kBlockRows * plan.kernel->tile_columns),
        order_(static_cast<size_t>(unit_rows)),
        group_(static_cast<size_t>(unit_rows)),
        ends_(static_cast<size_t>(plan.n_groups)) {}

  // The first row of [from, to) outside the domain, or -1.
  int64_t centre_rows(const Rows& rows, int64_t from, int64_t to) {
    const Domain domain{plan_.center.data(), plan_.limit, plan_.radius};
    for (int64_t i = from; i < to; i++)
      if (!centre(rows, i, domain, row(i - from))) return i;
    return -1;
  }

  // Adds or writes the rows that were centred last; weights and out begin at the first of them.
  void project(int64_t count, const int64_t* weights, int64_t* sums, int32_t* out) {
    sort_by_group(count);
    int64_t begin = 0;
    for (int64_t g = 0; g < plan_.n_groups; g++) {
      for (; begin < ends_[g]; begin += kBlockRows)
        project_block(g, begin, std::min<int64_t>(begin + kBlockRows, ends_[g]), weights, sums, out);
      begin = ends_[g];
    }
  }

 private:
  const Plan& plan_;
  AlignedFloats centred_, packed_, scratch_;
  std::vector<int64_t> order_, group_, ends_;
  std::vector<int64_t> block_weights_;
  std::vector<int32_t> block_out_;

  float* row(int64_t i) const { return centred_.get() + i * plan_.n_features; }

  // Rows sorted by their group of frequencies: order_, and where each group ends in it.
  void sort_by_group(int64_t count) {
    std::fill(ends_.begin(), ends_.end(), 0);
    if (plan_.n_groups == 1) {
      for (int64_t i = 0; i < count; i++) order_[i] = i;
      ends_[0] = count;
      return;
    }
    for (int64_t i = 0; i < count; i++) {
      group_[i] = group_of(row(i), plan_.n_features, plan_.key, plan_.n_groups);
      ends_[group_[i]]++;
    }
    int64_t start = 0;
    for (int64_t& end : ends_) {
      const int64_t size = end;
      end = start;
      start += size;
    }
    for (int64_t i = 0; i < count; i++) order_[ends_[group_[i]]++] = i;
  }

  void project_block(int64_t g, int64_t begin, int64_t end, const int64_t* weights, int64_t* sums, int32_t* out) {
    const int count = static_cast<int>(end - begin);
    const int64_t first_column = g * plan_.group_columns();
    const int64_t width = plan_.parts() * plan_.group_columns();
    Sink sink;
    sink.part_stride = plan_.n_columns;
    if (sums) sink.sums = sums + first_column;
    if (weights) {
      block_weights_.resize(kBlockRows);
      for (int i = 0; i < count; i++) block_weights_[i] = weights[order_[begin + i]];
      sink.weights = block_weights_.data();
    }
    if (out) {
      block_out_.resize(static_cast<size_t>(kBlockRows * width));
      sink.rows = block_out_.data();
      sink.row_stride = width;
      sink.part_stride = plan_.group_columns();
    }
    run_kernel(g, begin, count, sink);
    if (!out) return;
    const int64_t group = plan_.group_columns(), row_length = plan_.parts() * plan_.n_columns;
    for (int i = 0; i < count; i++)
      for (int part = 0; part < plan_.parts(); part++)
        std::copy_n(block_out_.data() + i * width + part * group, group,
                    out + order_[begin + i] * row_length + part * plan_.n_columns + first_column);
  }

  void run_kernel(int64_t g, int64_t begin, int count, const Sink& sink) {
    const int64_t d = plan_.n_features, padded = plan_.padded_columns(), at = g * padded;
    const Series series{plan_.series.data(), static_cast<int64_t>(plan_.series.size()) / (2 * plan_.parts())};
    const Block block{packed_.get(), count, d};
    if (plan_.size_) {
      for (int i = 0; i < count; i++) std::copy_n(row(order_[begin + i]), d, packed_.get() + i * d);
      const StructuredWeights weights{plan_.signs_.data() + 3 * at, plan_.radii_.data() + at,
                                      plan_.dither_.get() + at, plan_.size_, plan_.group_columns()};
      plan_.kernel->structured(block, weights, plan_.wave, series, sink, scratch_.get());
    } else {
      const int tile = plan_.kernel->tile_rows;
      for (int i = 0; i < count; i++) {
        const float* x = row(order_[begin + i]);
        float* to = packed_.get() + i / tile * tile * d + i % tile;
        for (int64_t k = 0; k < d; k++) to[k * tile] = x[k];
      }
      const DenseWeights weights{plan_.panels_.get() + at * d, plan_.dither_.get() + at, plan_.group_columns()};
      plan_.kernel->dense(block, weights, plan_.wave, series, sink, scratch_.get());
    }
  }
};

int64_t Plan::run(const Rows& rows, const int64_t* weights, int n_threads, int64_t* sums, int32_t* out) const {
  // Enough rows at a time to fill a block for every group, in at most a few megabytes.
  const int64_t blocks = std::max<int64_t>(1, std::min<int64_t>(n_groups, (int64_t{1} << 20) / (kBlockRows * n_features)));
  const int64_t unit = kBlockRows * blocks;
  const int64_t length = parts() * n_columns;
  std::atomic<int64_t> first_bad{rows.count};
  on_threads((rows.count + unit - 1) / unit, n_threads, [&](const auto& next, std::mutex& mutex) {
    Worker worker(*this, unit);
    std::vector<int64_t> local(sums ? static_cast<size_t>(length) : 0);
    for (int64_t u = next(); u >= 0; u = next()) {
      const int64_t from = u * unit, to = std::min(from + unit, rows.count);
      if (from > first_bad.load()) break;
      const int64_t bad = worker.centre_rows(rows, from, to);
      if (bad >= 0) {
        int64_t known = first_bad.load();
        while (bad < known && !first_bad.compare_exchange_weak(known, bad)) {
        }
        break;
      }
      worker.project(to - from, weights ? weights + from : nullptr, sums ? local.data() : nullptr,
                     out ? out + from * length : nullptr);
    }
    std::lock_guard<std::mutex> lock(mutex);
    for (size_t j = 0; j < local.size(); j++) sums[j] += local[j];
  });
  return first_bad.load() < rows.count ? first_bad.load() : -1;
}

int64_t Plan::add(const Rows& rows, const int64_t* weights, int n_threads, int64_t* sums) const {
  return run(rows, weights, n_threads, sums, nullptr);
}

int64_t Plan::write(const Rows& rows, int n_threads, int32_t* out) const {
  return run(rows, nullptr, n_threads, nullptr, out);
}

namespace {

template <class T>
bool scale_row(const Rows& rows, int64_t i, const double* center, const double* bound, double* out) {
  const T* x = static_cast<const T*>(rows.data) + i * rows.row_stride;
  bool inside = true;
  for (int64_t k = 0; k < rows.n_features; k++) {
    const double v = static_cast<double>(x[k * rows.column_stride]) - center[k];
    const bool near = std::fabs(v) <= bound[k];
    inside &= near;
    out[k] = near ? v / bound[k] : 0.0;
  }
  return inside;
}

}  // namespace

int64_t add_moments(const Kernel* kernel, const Rows& rows, const double* center, const double* bound,
                    const int64_t* weights, int n_threads, int64_t* sums) {
  const int64_t d = rows.n_features, unit = kBlockRows, length = d + d * (d + 1) / 2;
  std::atomic<int64_t> first_bad{rows.count};
  on_threads((rows.count + unit - 1) / unit, n_threads, [&](const auto& next, std::mutex& mutex) {
    std::vector<double> scaled(static_cast<size_t>(unit * d));
    std::vector<int64_t> local(static_cast<size_t>(length));
    for (int64_t u = next(); u >= 0; u = next()) {
      const int64_t from = u * unit, to = std::min(from + unit, rows.count);
      for (int64_t i = from; i < to; i++) {
        double* out = scaled.data() + (i - from) * d;
        if (rows.is_double ? scale_row<double>(rows, i, center, bound, out) : scale_row<float>(rows, i, center, bound, out))
          continue;
        int64_t known = first_bad.load();
        while (i < known && !first_bad.compare_exchange_weak(known, i)) {
        }
      }
      if (from > first_bad.load()) break;
      kernel->moments(scaled.data(), to - from, d, weights ? weights + from : nullptr, local.data());
    }
    std::lock_guard<std::mutex> lock(mutex);
    for (size_t j = 0; j < local.size(); j++) sums[j] += local[j];
  });
  return first_bad.load() < rows.count ? first_bad.load() : -1;
}

}  // namespace sketchlearn
