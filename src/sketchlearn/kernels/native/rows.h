// Rows as they lie in memory, and how one becomes numbers that a kernel takes.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

namespace sketchlearn {

// Values further from the center than this are refused: with frequencies up to 2^50, no phase can overflow.
constexpr double kLimit = 0x1p60, kFrequencyLimit = 0x1p50;

// A two-dimensional array of float32 or float64; strides in elements.
struct Rows {
  const void* data;
  int64_t count, n_features, row_stride, column_stride;
  bool is_double;
};

// What a row may be: at most `radius` from the center (infinity: anywhere within the limit).
struct Domain {
  const float* center;
  double radius;
};

// Values less the center's; false if any is too far away, or no number. Inlined, so that a stride of 1 lets whole vectors be
// loaded.
template <class T>
[[gnu::always_inline]] inline bool centre_values(const T* __restrict x, int64_t stride, const float* __restrict center,
                                                 int64_t count, float* __restrict out) {
  uint32_t inside = 1;
  for (int64_t k = 0; k < count; k++) {
    const T v = x[k * stride] - static_cast<T>(center[k]);
    const bool near = std::fabs(v) < static_cast<T>(2 * kLimit);  // and not so for NaN
    out[k] = static_cast<float>(sizeof(T) == sizeof(float) || near ? v : static_cast<T>(2 * kLimit));
    inside &= std::fabs(out[k]) <= static_cast<float>(kLimit);
  }
  return inside;
}

template <class T>
inline bool centre_as(const Rows& rows, int64_t i, const Domain& domain, float* out) {
  const T* x = static_cast<const T*>(rows.data) + i * rows.row_stride;
  const bool inside = rows.column_stride == 1 ? centre_values(x, 1, domain.center, rows.n_features, out)
                                              : centre_values(x, rows.column_stride, domain.center, rows.n_features, out);
  if (std::isinf(domain.radius)) return inside;
  double square = 0.0;
  for (int64_t k = 0; k < rows.n_features; k++) square += static_cast<double>(out[k]) * static_cast<double>(out[k]);
  return inside && square <= domain.radius * domain.radius;
}

// Writes row i, centred, to out[0 .. n_features); false if the row is outside the domain.
inline bool centre(const Rows& rows, int64_t i, const Domain& domain, float* out) {
  return rows.is_double ? centre_as<double>(rows, i, domain, out) : centre_as<float>(rows, i, domain, out);
}

template <class T>
inline bool scale_as(const Rows& rows, int64_t i, const double* center, const double* bound, double* out) {
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

// Writes (row i - center) / bound to out[0 .. n_features); false if a value is outside its bound.
inline bool scale(const Rows& rows, int64_t i, const double* center, const double* bound, double* out) {
  return rows.is_double ? scale_as<double>(rows, i, center, bound, out) : scale_as<float>(rows, i, center, bound, out);
}

// The groups of frequencies that `Rows` centred rows contribute to: hashes of their values (with -0 as +0). Several rows
// side by side: one alone would wait for a multiplication after each value.
template <int Rows>
inline void groups_of(const float* rows, int64_t n_features, uint64_t key, int64_t n_groups, int32_t* out) {
  uint64_t hash[Rows];
  for (int r = 0; r < Rows; r++) hash[r] = key;
  for (int64_t k = 0; k < n_features; k++)
#pragma GCC unroll 8
    for (int r = 0; r < Rows; r++) {
      const float value = rows[r * n_features + k] + 0.0f;
      uint32_t word;
      std::memcpy(&word, &value, sizeof word);
      hash[r] = (hash[r] ^ word) * 0x9e3779b97f4a7c15u;
      hash[r] ^= hash[r] >> 32;
    }
  for (int r = 0; r < Rows; r++)
    out[r] = static_cast<int32_t>(((hash[r] & 0xffffffffu) * static_cast<uint64_t>(n_groups)) >> 32);
}

}  // namespace sketchlearn
