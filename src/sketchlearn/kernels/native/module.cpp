// The Python face of the kernels: arrays in, integers out, the lock released meanwhile.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "cells.h"
#include "cross.h"
#include "directions.h"
#include "extremes.h"
#include "histogram.h"
#include "keeping.h"
#include "kmeans.h"
#include "mixture.h"
#include "packed.h"
#include "plan.h"
#include "threads.h"

namespace nb = nanobind;
using namespace sketchlearn;

namespace {

std::vector<const Kernel*> available_kernels() {
  std::vector<const Kernel*> kernels;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma"))
    kernels.push_back(avx512_kernel());
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) kernels.push_back(avx2_kernel());
#elif defined(__aarch64__)
  kernels.push_back(neon_kernel());
#endif
  kernels.push_back(portable_kernel());
  return kernels;
}

const Kernel* find_kernel(const std::string& name) {
  for (const Kernel* kernel : available_kernels())
    if (name == kernel->name) return kernel;
  throw std::invalid_argument("no kernel named " + name + " on this machine");
}

using Array = nb::ndarray<nb::ro, nb::ndim<2>, nb::device::cpu>;
using Floats = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using Doubles = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Weights = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using PlainFloats = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using OutFloats = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using OutDoubles = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using OutMatrix = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using OutLabels = nb::ndarray<int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Words = nb::ndarray<const uint64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using RowIntegers = nb::ndarray<int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Starts = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using RowMoments = nb::ndarray<int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void require(bool holds, const char* message) {
  if (!holds) throw std::invalid_argument(message);
}

Rows rows_of(const Array& x, int64_t n_features) {
  const bool is_double = x.dtype() == nb::dtype<double>();
  require(is_double || x.dtype() == nb::dtype<float>(), "rows must be float32 or float64");
  require((int64_t)x.shape(1) == n_features, "rows have the wrong number of columns");
  return {x.data(), (int64_t)x.shape(0), n_features, x.stride(0), x.stride(1), is_double};
}

Feature find_feature(const std::string& name) {
  for (size_t i = 0; i < std::size(kFeatureNames); i++)
    if (name == kFeatureNames[i]) return static_cast<Feature>(i);
  throw std::invalid_argument("no feature named " + name);
}

const int64_t* weights_of(const std::optional<Weights>& weights, const Rows& rows) {
  if (!weights) return nullptr;
  require((int64_t)weights->shape(0) == rows.count, "one weight per row is needed");
  return weights->data();
}

constexpr int64_t kWavesPerThread = 1 << 15;  // fewer cost less than starting a thread

struct WaveWorker {
  const Kernel* kernel;
  const float *phases, *exponents;
  float *cosines, *sines;
  int64_t columns, exponent_step;
  int64_t take(int64_t from, int64_t to, int64_t*) const {
    for (int64_t r = from; r < to; r++)
      kernel->waves(phases + r * columns, exponents ? exponents + r * exponent_step : nullptr, columns, cosines + r * columns,
                    sines + r * columns);
    return -1;
  }
};

std::vector<float> copied(const Floats& array) { return {array.data(), array.data() + array.size()}; }

Plan::Common common(const std::string& kernel, const std::string& feature, const Floats& center, const Floats& dither,
                    double radius, const std::vector<float>& coefficients, uint64_t key, int64_t n_groups) {
  const int64_t n_columns = (int64_t)dither.size();
  require(center.size() > 0 && n_groups >= 1 && n_columns >= 1 && n_columns % n_groups == 0, "sizes do not fit");
  const bool one_given = coefficients.size() == 1 && coefficients[0] >= 2 && coefficients[0] <= 8;
  require(feature.rfind("quantized", 0) != 0 || one_given, "a quantized wave comes with its bits, 2 to 8");
  return {find_kernel(kernel), find_feature(feature), copied(center), radius, coefficients, key, n_groups, copied(dither)};
}

Plan dense_plan(const std::string& kernel, const std::string& feature, const Floats& center, const Floats& dither,
                double radius, const std::vector<float>& coefficients, uint64_t key, int64_t n_groups,
                const Floats& frequencies) {
  require(frequencies.size() == center.size() * dither.size(), "frequencies have the wrong size");
  return Plan(common(kernel, feature, center, dither, radius, coefficients, key, n_groups), frequencies.data());
}

Plan structured_plan(const std::string& kernel, const std::string& feature, const Floats& center, const Floats& dither,
                     double radius, const std::vector<float>& coefficients, uint64_t key, int64_t n_groups,
                     const Floats& signs, const Floats& radii, int64_t size) {
  const Plan::Common shared = common(kernel, feature, center, dither, radius, coefficients, key, n_groups);
  const int64_t group = (int64_t)dither.size() / n_groups;
  require(size >= kSmallestTransform && (size & (size - 1)) == 0 && size >= (int64_t)center.size(), "unusable block size");
  require(n_groups == 1 || group % size == 0, "a group must be whole blocks");
  const int64_t all = n_groups * ((group + size - 1) / size) * size;
  require((int64_t)signs.size() == 3 * all && (int64_t)radii.size() == all, "diagonals have the wrong size");
  return Plan(shared, signs.data(), radii.data(), size);
}

int64_t add_rows(const Plan& plan, const Array& x, const std::optional<Weights>& weights, int n_threads, Integers sums) {
  const Rows rows = rows_of(x, plan.n_features());
  const int64_t* w = weights_of(weights, rows);
  require((int64_t)sums.size() == plan.parts() * plan.n_columns(), "sums have the wrong size");
  int64_t* out = sums.data();
  nb::gil_scoped_release release;
  return plan.add(rows, w, n_threads, out);
}

int64_t write_rows(const Plan& plan, const Array& x, int n_threads, RowIntegers out, const std::optional<Weights>& weights,
                   std::optional<Integers> sums) {
  const Rows rows = rows_of(x, plan.n_features());
  const int64_t* w = weights_of(weights, rows);
  const int64_t written = (int64_t)out.shape(1) / plan.parts();
  require((int64_t)out.shape(0) == rows.count && (int64_t)out.shape(1) == plan.parts() * written &&
              written <= plan.n_columns(),
          "out has the wrong shape");
  require(!sums || (int64_t)sums->size() == plan.parts() * plan.n_columns(), "sums have the wrong size");
  int32_t* to = out.data();
  int64_t* add_to = sums ? sums->data() : nullptr;
  nb::gil_scoped_release release;
  return plan.write(rows, w, n_threads, add_to, to, written);
}

void damped_waves(const std::string& kernel, const PlainFloats& phases, const std::optional<PlainFloats>& exponents,
                  int n_threads, OutFloats cosines, OutFloats sines) {
  const int64_t rows = (int64_t)phases.shape(0), columns = (int64_t)phases.shape(1);
  const auto fits = [&](const auto& a, bool shared) {
    return (int64_t)a.shape(1) == columns && ((int64_t)a.shape(0) == rows || (shared && a.shape(0) == 1));
  };
  require(fits(cosines, false) && fits(sines, false) && (!exponents || fits(*exponents, true)), "shapes do not fit");
  const Kernel* found = find_kernel(kernel);
  const float *from = phases.data(), *sizes = exponents ? exponents->data() : nullptr;
  const int64_t step = exponents && exponents->shape(0) > 1 ? columns : 0;
  float *cosine = cosines.data(), *sine = sines.data();
  nb::gil_scoped_release release;
  const int64_t unit = std::max<int64_t>(1, kWavesPerThread / std::max<int64_t>(1, columns));
  for_rows(rows, unit, n_threads, 0, nullptr, [&] { return WaveWorker{found, from, sizes, cosine, sine, columns, step}; });
}

// Pieces of the frequencies are summed one by one, then in order: the same on any number of threads.
constexpr int64_t kMostPieces = 16, kSmallestPiece = 4 * kTile;

struct CompareWorker {
  const Kernel* kernel;
  const Comparison& given;
  int64_t columns, length;
  double* parts;
  std::vector<float> space;
  int64_t take(int64_t from, int64_t to, int64_t*) {
    for (int64_t piece = from; piece < to; piece++)
      kernel->compare(given, piece * columns, std::min((piece + 1) * columns, given.n_frequencies), space.data(),
                      parts + piece * length);
    return -1;
  }
};

void compare(const std::string& kernel, const PlainFloats& turns, const std::optional<Floats>& shifts,
             const PlainFloats& quadratics, const std::optional<PlainFloats>& values, const PlainFloats& counts,
             const Floats& weights, const PlainFloats& locations, const PlainFloats& shapes, int n_threads,
             OutDoubles sums) {
  const int64_t d = (int64_t)turns.shape(0), m = (int64_t)turns.shape(1), n = (int64_t)weights.size();
  const int64_t q = (int64_t)quadratics.shape(0), rows = (int64_t)shapes.shape(0), length = (int64_t)sums.size();
  const auto fits = [](const PlainFloats& a, int64_t r, int64_t c) {
    return (int64_t)a.shape(0) == r && (int64_t)a.shape(1) == c;
  };
  require(d >= 1 && m >= 1 && n >= 1 && fits(quadratics, q, m) && fits(counts, 2, m) && fits(locations, n, d) &&
              (!values || fits(*values, 2, m)) && (!shifts || (int64_t)shifts->size() == m) &&
              (fits(shapes, 1, q) || (fits(shapes, n, q) && q >= 1)) && length == 1 + n * (1 + d) + rows * q,
          "shapes do not fit");
  const Kernel* found = find_kernel(kernel);
  const Comparison given{turns.data(), shifts ? shifts->data() : nullptr, quadratics.data(),
                         values ? values->data() : nullptr, counts.data(), weights.data(), locations.data(),
                         shapes.data(), m, d, q, n, rows == 1};
  double* out = sums.data();
  nb::gil_scoped_release release;
  const int64_t tiles = (m + kTile - 1) / kTile;
  const int64_t columns = std::max(kSmallestPiece, (tiles + kMostPieces - 1) / kMostPieces * kTile);
  const int64_t pieces = (m + columns - 1) / columns;
  const int threads = (int)std::clamp<int64_t>(n * m / kWavesPerThread, 1, n_threads);
  const int64_t space = found->comparison_space(given);
  std::vector<double> parts(pieces * length);
  for_rows(pieces, 1, threads, 0, nullptr, [&] {
    return CompareWorker{found, given, columns, length, parts.data(), std::vector<float>(space)};
  });
  for (int64_t i = 0; i < length; i++) {
    out[i] = 0.0;
    for (int64_t piece = 0; piece < pieces; piece++) out[i] += parts[piece * length + i];
  }
}

BitRows bit_rows(const Words& words, int64_t n_bits) {
  require(n_bits >= 1 && (int64_t)words.shape(1) == (n_bits + 63) / 64, "words have the wrong number of columns");
  return {words.data(), (int64_t)words.shape(0), (int64_t)words.shape(1)};
}

void bit_products(const std::string& kernel, const Words& a, const Words& b, int64_t n_bits, int n_threads, RowIntegers out) {
  const BitRows left = bit_rows(a, n_bits), right = bit_rows(b, n_bits);
  require((int64_t)out.shape(0) == left.count && (int64_t)out.shape(1) == right.count, "out has the wrong shape");
  const Kernel* found = find_kernel(kernel);
  int32_t* to = out.data();
  nb::gil_scoped_release release;
  multiply_bits(*found, left, right, n_bits, n_threads, to);
}

void signed_sums(const std::string& kernel, const Words& words, int64_t n_bits, const PlainFloats& weights, int n_threads,
                 OutFloats out) {
  const BitRows bits = bit_rows(words, n_bits);
  require((int64_t)weights.shape(0) == n_bits && (int64_t)out.shape(0) == bits.count && out.shape(1) == weights.shape(1),
          "shapes do not fit");
  const Kernel* found = find_kernel(kernel);
  const float* from = weights.data();
  const int64_t columns = (int64_t)weights.shape(1);
  float* to = out.data();
  nb::gil_scoped_release release;
  sum_signed(*found, bits, n_bits, from, columns, n_threads, to);
}

Moments moments(const std::string& kernel, const Doubles& center, const Doubles& bound, bool fused) {
  require(center.size() == bound.size(), "one bound per column is needed");
  return {find_kernel(kernel), center.data(), bound.data(), fused};
}

int64_t add_moments(const std::string& kernel, const Array& x, const Doubles& center, const Doubles& bound, bool fused,
                    const std::optional<Weights>& weights, int n_threads, Integers sums) {
  const Moments plan = moments(kernel, center, bound, fused);
  const int64_t d = (int64_t)center.size();
  const Rows rows = rows_of(x, d);
  const int64_t* w = weights_of(weights, rows);
  require((int64_t)sums.size() == d + d * (d + 1) / 2, "sums have the wrong size");
  int64_t* out = sums.data();
  nb::gil_scoped_release release;
  return plan.add(rows, w, n_threads, out);
}

int64_t write_moments(const std::string& kernel, const Array& x, const Doubles& center, const Doubles& bound,
                      bool fused, int n_threads, RowMoments out) {
  const Moments plan = moments(kernel, center, bound, fused);
  const int64_t d = (int64_t)center.size();
  const Rows rows = rows_of(x, d);
  require((int64_t)out.shape(0) == rows.count && (int64_t)out.shape(1) == d + d * (d + 1) / 2, "out has the wrong shape");
  int64_t* to = out.data();
  nb::gil_scoped_release release;
  return plan.write(rows, n_threads, to);
}

using FeatureIntegers = nb::ndarray<const int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

Crosses crosses(const std::string& kernel, const FeatureIntegers& features, double factor, const Rows& rows,
                const Doubles& center, const Doubles& bound) {
  require((int64_t)features.shape(0) == rows.count && features.shape(1) >= 1, "features of each row are needed");
  require(center.size() == bound.size(), "one bound per column is needed");
  return {find_kernel(kernel), features.data(), (int64_t)features.shape(1), factor, center.data(), bound.data()};
}

int64_t add_crosses(const std::string& kernel, const FeatureIntegers& features, double factor, const Array& x,
                    const Doubles& center, const Doubles& bound, const std::optional<Weights>& weights, int n_threads,
                    Integers sums) {
  const Rows rows = rows_of(x, (int64_t)center.size());
  const Crosses plan = crosses(kernel, features, factor, rows, center, bound);
  const int64_t* w = weights_of(weights, rows);
  require((int64_t)sums.size() == plan.n_features * rows.n_features, "sums have the wrong size");
  int64_t* out = sums.data();
  nb::gil_scoped_release release;
  return plan.add(rows, w, n_threads, out);
}

int64_t write_crosses(const std::string& kernel, const FeatureIntegers& features, double factor, const Array& x,
                      const Doubles& center, const Doubles& bound, int n_threads, RowMoments out) {
  const Rows rows = rows_of(x, (int64_t)center.size());
  const Crosses plan = crosses(kernel, features, factor, rows, center, bound);
  require((int64_t)out.shape(0) == rows.count && (int64_t)out.shape(1) == plan.n_features * rows.n_features,
          "out has the wrong shape");
  int64_t* to = out.data();
  nb::gil_scoped_release release;
  return plan.write(rows, n_threads, to);
}

template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> array_of(std::vector<T>&& values) {
  auto* owned = new std::vector<T>(std::move(values));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::ndarray<nb::numpy, T, nb::ndim<1>>(owned->data(), {owned->size()}, owner);
}

nb::ndarray<nb::numpy, uint64_t, nb::ndim<1>> row_hashes(const Array& x, uint64_t key, int n_threads) {
  const Rows rows = rows_of(x, (int64_t)x.shape(1));
  std::vector<uint64_t> hashes(static_cast<size_t>(rows.count));
  {
    nb::gil_scoped_release release;
    hash_rows(rows, key, n_threads, hashes.data());
  }
  return array_of(std::move(hashes));
}

void column_extremes(const Array& x, int n_threads, OutDoubles low, OutDoubles high) {
  require(low.size() == x.shape(1) && high.size() == x.shape(1), "outputs have the wrong size");
  const Rows rows = rows_of(x, (int64_t)x.shape(1));
  nb::gil_scoped_release release;
  extremes(rows, n_threads, low.data(), high.data());
}

nb::tuple keep_candidates(const std::string& kernel, const Array& x, const Doubles& center, const Doubles& scale, uint64_t key,
                          const nb::ndarray<const uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>& certain,
                          const std::optional<Weights>& weights, double below, int n_threads) {
  require(center.size() == scale.size(), "one scale per column is needed");
  const Kernel* chosen = find_kernel(kernel);
  const Rows rows = rows_of(x, (int64_t)center.size());
  const int64_t* w = weights_of(weights, rows);
  const KeepingRule rule{center.data(), scale.data(), rows.n_features, key, certain.data(), (int64_t)certain.size()};
  Candidates found;
  {
    nb::gil_scoped_release release;
    found = candidates(*chosen, rule, rows, w, below, n_threads);
  }
  return nb::make_tuple(array_of(std::move(found.first)), array_of(std::move(found.priority)),
                        array_of(std::move(found.total)));
}

void find_nearest(const std::string& kernel, const Array& x, const Matrix& centers, const Doubles& middle,
                  const Doubles& scale, int n_threads, OutLabels labels, OutDoubles squares) {
  const Kernel* found = find_kernel(kernel);
  const Rows rows = rows_of(x, (int64_t)centers.shape(1));
  require(centers.shape(0) >= 1 && centers.size() < size_t{1} << 31 && middle.size() == centers.shape(1) && scale.size() == centers.shape(1),
          "sizes do not fit");
  const Centers given{centers.data(), middle.data(), scale.data(), (int64_t)centers.shape(0)};
  require((int64_t)labels.size() == rows.count && (int64_t)squares.size() == rows.count, "outputs have the wrong size");
  nb::gil_scoped_release release;
  nearest_centers(*found, rows, given, n_threads, labels.data(), squares.data());
}

std::unique_ptr<KMeansRows> kmeans_rows(const std::string& kernel, const Array& x, const Doubles& weights, const Doubles& middle,
                                        double scale, bool in_float64, int n_threads) {
  const Rows rows = rows_of(x, (int64_t)middle.size());
  require(rows.count >= 1 && rows.n_features >= 1 && (int64_t)weights.size() == rows.count, "sizes do not fit");
  const KMeansRows::Given given{rows, middle.data(), weights.data(), scale, n_threads};
  nb::gil_scoped_release release;
  return KMeansRows::of(*find_kernel(kernel), given, in_float64);
}

template <class Array2>
int64_t count_of(const KMeansRows& rows, const Array2& centers) {
  require(centers.shape(0) >= 1 && (int64_t)centers.shape(1) == rows.n_features() && centers.size() < size_t{1} << 31, "sizes do not fit");
  return (int64_t)centers.shape(0);
}

void kmeans_starts(const KMeansRows& rows, const Matrix& uniforms, int n_threads, Integers positions) {
  const int64_t k = (int64_t)uniforms.shape(0), n = (int64_t)uniforms.shape(1);
  require(n >= 1 && n <= kMostCandidates && (int64_t)positions.size() == k, "sizes do not fit");
  nb::gil_scoped_release release;
  rows.starts(k, uniforms.data(), n, n_threads, positions.data());
}

double kmeans_lloyd(const KMeansRows& rows, OutMatrix centers, double tolerance, int64_t most_steps, int n_threads) {
  const int64_t k = count_of(rows, centers);
  nb::gil_scoped_release release;
  return rows.lloyd(centers.data(), k, tolerance, most_steps, n_threads);
}

void kmeans_assign(const KMeansRows& rows, const Matrix& centers, int n_threads, OutLabels labels, OutDoubles squares) {
  const int64_t k = count_of(rows, centers);
  require((int64_t)labels.size() == rows.count() && (int64_t)squares.size() == rows.count(), "outputs have the wrong size");
  nb::gil_scoped_release release;
  rows.assign(centers.data(), k, n_threads, labels.data(), squares.data());
}

void kmeans_removal_costs(const KMeansRows& rows, const Matrix& centers, int n_threads, OutDoubles costs) {
  const int64_t k = count_of(rows, centers);
  require((int64_t)costs.size() == k, "outputs have the wrong size");
  nb::gil_scoped_release release;
  rows.removal_costs(centers.data(), k, n_threads, costs.data());
}

std::unique_ptr<Cells> cells_in_columns(const std::string& kernel, const Doubles& center, const Floats& scale,
                                        const PlainFloats& points, const Floats& halves, bool refuse,
                                        const std::optional<PlainFloats>& places, const std::optional<Floats>& factors,
                                        float radius, float distance_unit) {
  const size_t d = center.size(), n = points.shape(0);
  require(scale.size() == d && points.shape(1) == d && n >= 1 && halves.size() == n && places.has_value() == factors.has_value(),
          "sizes do not fit");
  require(!places || (places->shape(0) == n && places->shape(1) == d && factors->size() == d), "sizes do not fit");
  return std::make_unique<CellsInColumns>(
      *find_kernel(kernel), CellsInColumns::Given{center.data(), scale.data(), points.data(), halves.data(), (int64_t)d, (int64_t)n,
                                                  refuse, places ? places->data() : nullptr, factors ? factors->data() : nullptr,
                                                  radius, distance_unit});
}

Directions directions_of(const std::string& kernel, const Doubles& center, const Doubles& bound, const Matrix& directions,
                         double unit, bool normalize, bool refuse) {
  const size_t d = center.size();
  require(bound.size() == d && directions.shape(0) == d && directions.shape(1) >= 1, "sizes do not fit");
  return Directions(*find_kernel(kernel), {center.data(), bound.data(), directions.data(), (int64_t)d,
                                           (int64_t)directions.shape(1), unit, normalize, refuse});
}

void write_places(const Directions& directions, const Array& x, int n_threads, OutMatrix out) {
  const Rows rows = rows_of(x, directions.n_features());
  require((int64_t)out.shape(0) == rows.count && (int64_t)out.shape(1) == directions.count(), "places have the wrong shape");
  nb::gil_scoped_release release;
  directions.places(rows, n_threads, out.data());
}

void write_values(const Directions& directions, const Array& x, int n_threads, OutMatrix out) {
  const Rows rows = rows_of(x, directions.n_features());
  require((int64_t)out.shape(0) == rows.count && (int64_t)out.shape(1) == rows.n_features, "values have the wrong shape");
  nb::gil_scoped_release release;
  directions.values(rows, n_threads, out.data());
}

std::unique_ptr<Cells> cells_in_directions(const Directions& directions, const Matrix& points, bool by_column) {
  require((int64_t)points.shape(1) == directions.count() && points.shape(0) >= 1, "sizes do not fit");
  return std::make_unique<CellsInDirections>(directions, points.data(), (int64_t)points.shape(0), by_column);
}

nb::tuple add_cells(const Cells& cells, const Array& x, const std::optional<Weights>& weights, int n_threads, Integers sums) {
  const Rows rows = rows_of(x, cells.n_features());
  const int64_t* w = weights_of(weights, rows);
  require((int64_t)sums.size() == cells.n_sums(), "sums have the wrong size");
  int64_t *out = sums.data(), bad = -1, clipped = 0;
  {
    nb::gil_scoped_release release;
    bad = cells.add(rows, w, n_threads, out, &clipped);
  }
  return nb::make_tuple(bad, clipped);
}

nb::tuple add_expected(const std::string& kernel, const Array& x, const Doubles& center, const Floats& scale,
                       const PlainFloats& parts, bool full, const std::optional<Weights>& weights, int n_threads, Integers sums) {
  const Kernel* chosen = find_kernel(kernel);
  const Rows rows = rows_of(x, (int64_t)center.size());
  const int64_t d = rows.n_features;
  const MixtureOfRows mixture{center.data(), scale.data(), {parts.data(), (int64_t)parts.shape(0), d, full}};
  const int64_t squares = mixture.parts.squares(), *w = weights_of(weights, rows);
  require((int64_t)scale.size() == d && (int64_t)parts.shape(1) == 2 + d + squares && parts.shape(0) >= 1, "sizes do not fit");
  require((int64_t)sums.size() == 1 + mixture.parts.count * (1 + d + squares), "sums have the wrong size");
  int64_t *out = sums.data(), bad = -1, clipped = 0;
  {
    nb::gil_scoped_release release;
    bad = add_expected_statistics(*chosen, rows, mixture, w, n_threads, out, &clipped);
  }
  return nb::make_tuple(bad, clipped);
}

int64_t write_cells(const Cells& cells, const Array& x, int n_threads, RowMoments out) {
  const Rows rows = rows_of(x, cells.n_features());
  require((int64_t)out.shape(0) == rows.count && (int64_t)out.shape(1) == cells.n_sums(), "integers have the wrong shape");
  int64_t* to = out.data();
  nb::gil_scoped_release release;
  return cells.write(rows, n_threads, to);
}

int64_t nearest_cells(const Cells& cells, const Array& x, int n_threads, OutLabels labels) {
  const Rows rows = rows_of(x, cells.n_features());
  require((int64_t)labels.size() == rows.count, "one label per row is needed");
  int32_t* to = labels.data();
  nb::gil_scoped_release release;
  return cells.find(rows, n_threads, to);
}

Bins bins_of(const Doubles& edges, const Starts& starts) {
  const int64_t* at = starts.data();
  const int64_t d = (int64_t)starts.size() - 1;
  require(d >= 1 && at[0] == 0 && at[d] == (int64_t)edges.size(), "starts do not fit the edges");
  for (int64_t c = 0; c < d; c++)
    require(at[c] < at[c + 1] && at[c + 1] - at[c] < 65536, "a column has no edges, or too many");
  return Bins(edges.data(), at, d);
}

int64_t add_counts(const Array& x, const Doubles& edges, const Starts& starts, const std::optional<Weights>& weights,
                   int n_threads, Integers counts) {
  const Bins bins = bins_of(edges, starts);
  const Rows rows = rows_of(x, (int64_t)starts.size() - 1);
  const int64_t* w = weights_of(weights, rows);
  require((int64_t)counts.size() == bins.n_counts(), "counts have the wrong size");
  int64_t* out = counts.data();
  nb::gil_scoped_release release;
  return bins.add(rows, w, n_threads, out);
}

int64_t find_counts(const Array& x, const Doubles& edges, const Starts& starts, int n_threads, RowIntegers out) {
  const Bins bins = bins_of(edges, starts);
  const Rows rows = rows_of(x, (int64_t)starts.size() - 1);
  require((int64_t)out.shape(0) == rows.count && (int64_t)out.shape(1) == rows.n_features, "out has the wrong shape");
  int32_t* to = out.data();
  nb::gil_scoped_release release;
  return bins.write(rows, n_threads, to);
}

}  // namespace

NB_MODULE(_native, m) {
  nb::set_leak_warnings(false);  // operators that live until the interpreter ends keep their plans
  m.attr("LIMIT") = kLimit;
  m.attr("FREQUENCY_LIMIT") = kFrequencyLimit;
  m.attr("SMALLEST_TRANSFORM") = kSmallestTransform;
  m.def("kernels", [] {
    std::vector<std::string> names;
    for (const Kernel* kernel : available_kernels()) names.emplace_back(kernel->name);
    return names;
  });
  nb::class_<Plan>(m, "Plan")
      .def("add", &add_rows, nb::arg("rows"), nb::arg("weights").none().noconvert(), nb::arg("n_threads"),
           nb::arg("sums").noconvert())
      .def("write", &write_rows, nb::arg("rows"), nb::arg("n_threads"), nb::arg("out").noconvert(),
           nb::arg("weights").none().noconvert() = nb::none(), nb::arg("sums").none().noconvert() = nb::none());
  m.def("dense_plan", &dense_plan, nb::arg("kernel"), nb::arg("feature"), nb::arg("center"), nb::arg("dither"),
        nb::arg("radius"), nb::arg("coefficients"), nb::arg("key"), nb::arg("n_groups"), nb::arg("frequencies"));
  m.def("structured_plan", &structured_plan, nb::arg("kernel"), nb::arg("feature"), nb::arg("center"),
        nb::arg("dither"), nb::arg("radius"), nb::arg("coefficients"), nb::arg("key"), nb::arg("n_groups"),
        nb::arg("signs"), nb::arg("radii"), nb::arg("size"));
  m.def("damped_waves", &damped_waves, nb::arg("kernel"), nb::arg("phases").noconvert(),
        nb::arg("exponents").none().noconvert(), nb::arg("n_threads"), nb::arg("cosines").noconvert(),
        nb::arg("sines").noconvert());
  m.def("compare", &compare, nb::arg("kernel"), nb::arg("turns").noconvert(), nb::arg("shifts").none().noconvert(),
        nb::arg("quadratics").noconvert(), nb::arg("values").none().noconvert(), nb::arg("counts").noconvert(),
        nb::arg("weights").noconvert(), nb::arg("locations").noconvert(), nb::arg("shapes").noconvert(),
        nb::arg("n_threads"), nb::arg("sums").noconvert());
  m.def("bit_products", &bit_products, nb::arg("kernel"), nb::arg("a").noconvert(), nb::arg("b").noconvert(),
        nb::arg("n_bits"), nb::arg("n_threads"), nb::arg("out").noconvert());
  m.def("signed_sums", &signed_sums, nb::arg("kernel"), nb::arg("words").noconvert(), nb::arg("n_bits"),
        nb::arg("weights").noconvert(), nb::arg("n_threads"), nb::arg("out").noconvert());
  m.def("add_moments", &add_moments, nb::arg("kernel"), nb::arg("rows"), nb::arg("center"), nb::arg("bound"),
        nb::arg("fused"), nb::arg("weights").none().noconvert(), nb::arg("n_threads"), nb::arg("sums").noconvert());
  m.def("write_moments", &write_moments, nb::arg("kernel"), nb::arg("rows"), nb::arg("center"), nb::arg("bound"),
        nb::arg("fused"), nb::arg("n_threads"), nb::arg("out").noconvert());
  m.def("add_crosses", &add_crosses, nb::arg("kernel"), nb::arg("features").noconvert(), nb::arg("factor"), nb::arg("rows"),
        nb::arg("center"), nb::arg("bound"), nb::arg("weights").none().noconvert(), nb::arg("n_threads"),
        nb::arg("sums").noconvert());
  m.def("write_crosses", &write_crosses, nb::arg("kernel"), nb::arg("features").noconvert(), nb::arg("factor"),
        nb::arg("rows"), nb::arg("center"), nb::arg("bound"), nb::arg("n_threads"), nb::arg("out").noconvert());
  m.def("row_hashes", &row_hashes, nb::arg("rows"), nb::arg("key"), nb::arg("n_threads"));
  m.def("column_extremes", &column_extremes, nb::arg("rows"), nb::arg("n_threads"), nb::arg("low").noconvert(),
        nb::arg("high").noconvert());
  m.def("keep_candidates", &keep_candidates, nb::arg("kernel"), nb::arg("rows"), nb::arg("center"), nb::arg("scale"),
        nb::arg("key"), nb::arg("certain"), nb::arg("weights").none().noconvert(), nb::arg("below"), nb::arg("n_threads"));
  m.def("find_nearest", &find_nearest, nb::arg("kernel"), nb::arg("rows"), nb::arg("centers"), nb::arg("middle"),
        nb::arg("scale"), nb::arg("n_threads"), nb::arg("labels").noconvert(), nb::arg("squares").noconvert());
  nb::class_<KMeansRows>(m, "KMeansRows")
      .def("starts", &kmeans_starts, nb::arg("uniforms").noconvert(), nb::arg("n_threads"), nb::arg("positions").noconvert())
      .def("lloyd", &kmeans_lloyd, nb::arg("centers").noconvert(), nb::arg("tolerance"), nb::arg("most_steps"), nb::arg("n_threads"))
      .def("assign", &kmeans_assign, nb::arg("centers").noconvert(), nb::arg("n_threads"), nb::arg("labels").noconvert(),
           nb::arg("squares").noconvert())
      .def("removal_costs", &kmeans_removal_costs, nb::arg("centers").noconvert(), nb::arg("n_threads"),
           nb::arg("costs").noconvert());
  m.def("kmeans_rows", &kmeans_rows, nb::arg("kernel"), nb::arg("rows"), nb::arg("weights").noconvert(),
        nb::arg("middle").noconvert(), nb::arg("scale"), nb::arg("in_float64"), nb::arg("n_threads"));
  nb::class_<Cells>(m, "Cells")
      .def("add", &add_cells, nb::arg("rows"), nb::arg("weights").none().noconvert(), nb::arg("n_threads"),
           nb::arg("sums").noconvert())
      .def("write", &write_cells, nb::arg("rows"), nb::arg("n_threads"), nb::arg("out").noconvert())
      .def("nearest", &nearest_cells, nb::arg("rows"), nb::arg("n_threads"), nb::arg("labels").noconvert());
  m.def("cells_in_columns", &cells_in_columns, nb::arg("kernel"), nb::arg("center"), nb::arg("scale"), nb::arg("points"),
        nb::arg("halves"), nb::arg("refuse"), nb::arg("places").none() = nb::none(), nb::arg("factors").none() = nb::none(),
        nb::arg("radius") = 0.0f, nb::arg("distance_unit") = 0.0f);
  nb::class_<Directions>(m, "Directions")
      .def("places", &write_places, nb::arg("rows"), nb::arg("n_threads"), nb::arg("out").noconvert())
      .def("values", &write_values, nb::arg("rows"), nb::arg("n_threads"), nb::arg("out").noconvert());
  m.def("directions", &directions_of, nb::arg("kernel"), nb::arg("center"), nb::arg("bound"), nb::arg("directions"),
        nb::arg("unit"), nb::arg("normalize"), nb::arg("refuse"));
  m.def("cells_in_directions", &cells_in_directions, nb::arg("directions"), nb::arg("points"), nb::arg("by_column"),
        nb::keep_alive<0, 1>());
  m.def("add_expected", &add_expected, nb::arg("kernel"), nb::arg("rows"), nb::arg("center"), nb::arg("scale"), nb::arg("parts"),
        nb::arg("full"), nb::arg("weights").none().noconvert(), nb::arg("n_threads"), nb::arg("sums").noconvert());
  m.def("add_counts", &add_counts, nb::arg("rows"), nb::arg("edges"), nb::arg("starts"),
        nb::arg("weights").none().noconvert(), nb::arg("n_threads"), nb::arg("counts").noconvert());
  m.def("find_counts", &find_counts, nb::arg("rows"), nb::arg("edges"), nb::arg("starts"), nb::arg("n_threads"),
        nb::arg("out").noconvert());
}
