#include "mixture.h"

#include <algorithm>
#include <vector>

#include "directions.h"
#include "threads.h"

namespace sketchlearn {
namespace {

constexpr int64_t kUnitRows = 16 * kBlockRows;  // that a thread takes at a time

class MixtureWorker {
 public:
  MixtureWorker(const Kernel& kernel, const CellRows& rows, const GaussianParts& parts, const int64_t* weights,
                std::atomic<int64_t>* clipped)
      : kernel_(kernel),
        rows_(rows),
        parts_(parts),
        weights_(weights),
        clipped_(clipped),
        row_(static_cast<size_t>(rows.n_features + kernel.cell_lanes)),
        values_(static_cast<size_t>(rows.n_features * kBlockRows)),
        space_(static_cast<size_t>((2 * parts.count + 2 * rows.n_features + 4) * kBlockRows)) {}

  int64_t take(int64_t from, int64_t to, int64_t* sums) {
    for (int64_t first = from; first < to; first += kBlockRows) {
      const int64_t count = std::min<int64_t>(kBlockRows, to - first), bad = read(first, count);
      if (bad >= 0) return bad;
      kernel_.expect(values_.data(), count, parts_, weights_ ? weights_ + first : nullptr, space_.data(), odd_, sums);
      const int64_t odd = std::count_if(odd_, odd_ + count, [](uint8_t o) { return o != 0; });
      if (odd) clipped_->fetch_add(odd);
    }
    return -1;
  }

 private:
  const Kernel& kernel_;
  const CellRows rows_;
  const GaussianParts parts_;
  const int64_t* weights_;
  std::atomic<int64_t>* clipped_;
  std::vector<float> row_, values_, space_;  // values: [column][kBlockRows]
  uint8_t odd_[kBlockRows];

  int64_t read(int64_t first, int64_t count) {
    const int64_t d = rows_.n_features;
    for (int64_t r = 0; r < count; r++) {
      const int odd = kernel_.read_bounded_row(rows_, first + r, row_.data());
      if (odd & kRowBad) return first + r;
      odd_[r] = odd != 0;
      for (int64_t k = 0; k < d; k++) values_[static_cast<size_t>(k * kBlockRows + r)] = row_[static_cast<size_t>(k)];
    }
    return -1;
  }
};

}  // namespace

int64_t add_expected_statistics(const Kernel& kernel, const Rows& rows, const MixtureOfRows& mixture, const int64_t* weights,
                                int n_threads, int64_t* sums, int64_t* clipped) {
  const std::vector<double> center = padded(mixture.center, rows.n_features, kernel.cell_lanes);
  const std::vector<float> single(center.begin(), center.end()), scale = padded(mixture.scale, rows.n_features, kernel.cell_lanes);
  const CellRows given{rows.data, rows.is_double, rows.n_features, rows.row_stride, rows.column_stride,
                       center.data(), single.data(), scale.data()};
  std::atomic<int64_t> moved{0};
  const int64_t length = 1 + mixture.parts.count * (1 + rows.n_features + mixture.parts.squares());
  const int64_t bad = for_rows(rows.count, kUnitRows, n_threads, length, sums, [&] {
    return MixtureWorker(kernel, given, mixture.parts, weights, &moved);
  });
  *clipped = moved.load();
  return bad;
}

}  // namespace sketchlearn
