#include "directions.h"

#include <algorithm>
#include <limits>

#include "threads.h"

namespace sketchlearn {
namespace {

constexpr int64_t kUnitRows = 16 * kBlockRows;  // that a thread takes at a time

// Writes values or places of rows, block by block.
struct PlaceWorker {
  DirectedBlock block;
  int64_t width;
  bool of_values;
  double* out;
  int64_t take(int64_t from, int64_t to, int64_t*) {
    for (int64_t first = from; first < to; first += block.n_rows()) {
      const int64_t count = std::min(block.n_rows(), to - first);
      bool bad[kBlockRows];
      for (int64_t r = 0; r < count; r++) bad[r] = block.read(first + r, r) & kRowBad;
      if (!of_values) block.find_places(0, count);
      for (int64_t r = 0; r < count; r++) {
        double* own = out + (first + r) * width;
        std::copy_n(of_values ? block.values(r) : block.places(r), width, own);
        if (bad[r]) std::fill_n(own, width, std::numeric_limits<double>::quiet_NaN());
      }
    }
    return -1;
  }
};

}  // namespace

int64_t rows_of_block(const Kernel& kernel, int64_t stride) {
  return std::clamp<int64_t>(kBlockValues / stride / kernel.cell_rows * kernel.cell_rows, kernel.cell_rows, kBlockRows);
}

Directions::Directions(const Kernel& kernel, const Given& given)
    : kernel_(kernel),
      n_features_(given.n_features),
      count_(given.count),
      stride_(rounded_up(n_features_, kWholePadding)),
      n_padded_(rounded_up(count_, kernel.cell_lanes / 2)),
      center_(static_cast<size_t>(stride_)),
      bound_(center_),
      factor_(center_),
      panels_(in_panels<double>(kernel, count_, kernel.cell_lanes / 2, n_features_, stride_,
                                [&](int64_t c, int64_t k) { return given.directions[k * given.count + c]; })),
      unit_(given.unit),
      normalize_(given.normalize),
      refuse_(given.refuse) {
  std::copy_n(given.center, n_features_, center_.begin());
  std::copy_n(given.bound, n_features_, bound_.begin());
  std::transform(given.bound, given.bound + n_features_, factor_.begin(), [](double bound) { return kWholeUnit / bound; });
}

void Directions::places(const Rows& rows, int n_threads, double* out) const {
  for_rows(rows.count, kUnitRows, n_threads, 0, nullptr, [&] { return PlaceWorker{{*this, rows, rows_of_block(kernel_, stride_)}, count_, false, out}; });
}

void Directions::values(const Rows& rows, int n_threads, double* out) const {
  for_rows(rows.count, kUnitRows, n_threads, 0, nullptr, [&] { return PlaceWorker{{*this, rows, rows_of_block(kernel_, stride_)}, n_features_, true, out}; });
}

DirectedBlock::DirectedBlock(const Directions& directions, const Rows& rows, int64_t n_rows)
    : given_(directions),
      rows_{rows.data, rows.is_double, rows.n_features, rows.row_stride, rows.column_stride,
            directions.center_.data(), directions.bound_.data(), directions.factor_.data(), directions.normalize_},
      n_rows_(n_rows),
      values_(static_cast<size_t>(rounded_up(n_rows, directions.kernel_.cell_rows) * directions.stride_)),
      places_(static_cast<size_t>(std::min<int64_t>(rounded_up(n_rows, directions.kernel_.cell_rows), kBlockRows) * directions.n_padded_)) {}

int DirectedBlock::read(int64_t i, int64_t r) {
  const int odd = given_.kernel_.read_whole_row(rows_, i, values_.data() + r * given_.stride_);
  return odd & (given_.refuse_ ? kRowBad | kRowRefused : kRowBad) ? kRowBad : given_.refuse_ ? 0 : odd & kRowClipped;
}

void DirectedBlock::find_places(int64_t first, int64_t count) {
  given_.kernel_.find_places(values_.data() + first * given_.stride_, count, given_.stride_, {given_.panels_.data(), given_.n_padded_, given_.unit_}, places_.data());
}

}  // namespace sketchlearn
