// The loops, written once; each instruction set's file includes this after simd.h, waves.h and quantized_waves.h.

constexpr int kColumns = kTileVectors * kLanes;
static_assert(kBlockRows % kTileRows == 0 && kBlockRows <= 1024, "blocks of whole tiles, and sums that 32 bits hold");
static_assert(kTileVectors % kChains == 0 && kPack <= kSmallestTransform, "whole packs");
#if defined(SKETCHLEARN_NEON)
constexpr bool kFirstByProduct = true;  // sums start as products: setting them to zero takes a vector unit's time
constexpr bool kReduceAhead = true;     // the window of a Neoverse N1 is short: 1.27 -> 1.21 ns a feature
#else
constexpr bool kFirstByProduct = false;
constexpr bool kReduceAhead = false;
#endif
constexpr int64_t kDepth = 192;  // features per pass over a panel, so that its part stays in the first cache

// sum[r][v] (+)= x[r] * panel[v] for one column of tile rows, in the order that suits the machine's registers.
#if defined(SKETCHLEARN_NEON)
template <bool First, int Lane>  // fmla takes its scalar from a lane, whose number must be a constant
inline void multiply_lane(float32x4_t w, float32x4_t lanes, Vector& sum) {
  sum = First ? (Vector)vmulq_laneq_f32(w, lanes, Lane) : (Vector)vfmaq_laneq_f32((float32x4_t)sum, w, lanes, Lane);
}
template <bool First, int... R>
inline void multiply_column(const float* x, const float* panel, Vector (*sum)[kTileVectors],
                            std::integer_sequence<int, R...>) {
  static_assert(kTileRows == kLanes, "one vector of rows");
  const float32x4_t lanes = vld1q_f32(x);
#pragma GCC unroll 8
  for (int v = 0; v < kTileVectors; v++) {
    const float32x4_t w = (float32x4_t)load(panel + v * kLanes);
    (multiply_lane<First, R>(w, lanes, sum[R][v]), ...);
  }
}
#else
template <bool First, int... R>
inline void multiply_column(const float* x, const float* panel, Vector (*sum)[kTileVectors],
                            std::integer_sequence<int, R...>) {
  Vector w[kTileVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kTileVectors; v++) w[v] = load(panel + v * kLanes);
  const auto multiply_row = [&](int r) {
#pragma GCC unroll 8
    for (int v = 0; v < kTileVectors; v++) sum[r][v] = First ? w[v] * x[r] : fma(all(x[r]), w[v], sum[r][v]);
  };
  (multiply_row(R), ...);
}
#endif

// tile[r][c] (+)= sum over k of rows[k][r] * panel[k][c], each as one chain of fused multiply-adds, k ascending.
template <bool First>
SKETCHLEARN_HOT void multiply(const float* rows, const float* panel, int64_t depth, float* tile) {
  constexpr auto every_row = std::make_integer_sequence<int, kTileRows>{};
  if (depth < 1) __builtin_unreachable();  // or the compiler saves all sums around an empty loop
  Vector sum[kTileRows][kTileVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; r++)
#pragma GCC unroll 8
    for (int v = 0; v < kTileVectors; v++) sum[r][v] = First ? Vector{} : load(tile + r * kColumns + v * kLanes);
  int64_t k = 0;
  if (First && kFirstByProduct) multiply_column<true>(rows, panel, sum, every_row), k = 1;
  for (; k < depth; k++) multiply_column<false>(rows + k * kTileRows, panel + k * kColumns, sum, every_row);
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; r++)
#pragma GCC unroll 8
    for (int v = 0; v < kTileVectors; v++) store(tile + r * kColumns + v * kLanes, sum[r][v]);
}

// Sums one pack of columns over `count` rows of phases. Ahead: each row is reduced before the last one goes through the wave,
// two rows in turn, so that none is copied.
template <class W>
SKETCHLEARN_HOT void total(const float* phases, int64_t stride, int count, const float* dither, const Coefficients& given,
                           int32_t (*part)[kPack]) {
  Total<W> sum;
  float shift[kPack];
  for (int i = 0; i < kPack; i++) shift[i] = dither[i] * W::unit;
  const auto reduced = [&](int64_t ahead) { return W::reduced(load_pack(phases + ahead * stride), load_pack(forget(shift))); };
  const float* const end = phases + count * stride;
  if (kReduceAhead) {
    Floats u = reduced(0);
    for (; end - phases > 2 * stride; phases += 2 * stride) {
      const Floats next = reduced(1);
      sum.add(u, given);
      u = reduced(2);
      sum.add(next, given);
    }
  }
  for (; phases != end; phases += stride) sum.add(reduced(0), given);
  sum.finish(count, part);
}

// The integers of each row of one pack, written out or added up with its weight.
template <class W>
SKETCHLEARN_HOT void visit(const float* phases, int64_t stride, int count, const float* dither, const Coefficients& given,
                           int64_t column, int64_t live, const Sink& sink) {
  int32_t part[kPack];
  for (int r = 0; r < count; r++, phases += stride) {
    Bits values[2]{};
    W::eval(W::reduced(load_pack(phases), load_pack(dither) * W::unit), Addends(), given, values[0], values[1]);
    for (int q = 0; q < W::parts; q++) {
      store(part, values[q] - W::bias);
      const int64_t at = q * sink.part_stride + column;
      if (sink.rows)
        for (int64_t i = 0; i < live; i++) sink.rows[r * sink.row_stride + at + i] = part[i];
      else
        for (int64_t i = 0; i < live; i++) sink.sums[at + i] += sink.weights[r] * part[i];
    }
  }
}

// Applies the wave to `count` rows of phases and hands the integers of `width` columns, from `column` on, to the sink.
// Phases and dither are readable up to the next whole pack.
template <class W>
inline void consume(const float* phases, int64_t stride, int count, int64_t column, int64_t width, const float* dither,
                    const Coefficients& given, const Sink& sink) {
  Sink writing = sink, adding = sink;
  writing.part_stride = sink.row_part_stride;
  adding.rows = nullptr;
  for (int64_t c = 0; c < width; c += kPack) {
    const int64_t live = width - c < kPack ? width - c : kPack;
    const int64_t to_write = sink.row_columns - column - c;
    if (to_write > 0)
      visit<W>(phases + c, stride, count, dither + c, given, column + c, to_write < live ? to_write : live, writing);
    if (!sink.sums) continue;
    if (sink.weights) {
      visit<W>(phases + c, stride, count, dither + c, given, column + c, live, adding);
      continue;
    }
    int32_t part[W::parts][kPack];
    total<W>(phases + c, stride, count, dither + c, given, part);
    for (int q = 0; q < W::parts; q++)
      for (int64_t i = 0; i < live; i++) sink.sums[q * sink.part_stride + column + c + i] += part[q][i];
  }
}

template <class W>
void dense_block(const Block& block, const DenseFrequencies& frequencies, const Coefficients& given, const Sink& sink,
                 float* tile) {
  const int64_t d = block.n_features;
  for (int64_t column = 0; column < frequencies.n_columns; column += kColumns) {
    const float* panel = frequencies.panels + column * d;
    for (int64_t k = 0; k < d; k += kDepth) {
      const int64_t depth = d - k < kDepth ? d - k : kDepth;
      for (int r = 0; r < block.count; r += kTileRows)
        (k ? multiply<false> : multiply<true>)(block.rows + r * d + k * kTileRows, panel + k * kColumns, depth,
                                               tile + r * kColumns);
    }
    const int64_t width = frequencies.n_columns - column < kColumns ? frequencies.n_columns - column : kColumns;
    consume<W>(tile, kColumns, block.count, column, width, frequencies.dither + column, given, sink);
  }
}

template <int H>
inline void short_butterflies(float* y, int64_t size) {
  Vector sign{};
  for (int i = 0; i < kLanes; i++) sign[i] = i & H ? -1.0f : 1.0f;
  for (int64_t i = 0; i < size; i += kLanes) {
    const Vector v = load(y + i);
    store(y + i, partner<H>(v) + v * sign);
  }
}

// The unnormalised Walsh-Hadamard transform: stages 1, 2, 4, ..., each pair (a, b) becoming (a + b, a - b).
SKETCHLEARN_HOT void hadamard(float* y, int64_t size) {
  short_butterflies<1>(y, size);
  short_butterflies<2>(y, size);
  if (kLanes > 4) short_butterflies<4 % kLanes>(y, size);
  if (kLanes > 8) short_butterflies<8 % kLanes>(y, size);
  for (int64_t h = kLanes; h < size; h *= 2)
    for (int64_t i = 0; i < size; i += 2 * h)
      for (int64_t j = i; j < i + h; j += kLanes) {
        const Vector a = load(y + j), b = load(y + j + h);
        store(y + j, a + b);
        store(y + j + h, a - b);
      }
}

template <class W>
void structured_block(const Block& block, const StructuredFrequencies& frequencies, const Coefficients& given,
                      const Sink& sink, float* phases) {
  const int64_t size = frequencies.size, d = block.n_features;
  for (int from = 0; from < block.count; from += kStructuredRows) {
    const int count = block.count - from < kStructuredRows ? block.count - from : kStructuredRows;
    Sink part = sink;
    if (part.weights) part.weights += from;
    if (part.rows) part.rows += from * part.row_stride;
    for (int64_t column = 0; column < frequencies.n_columns; column += size) {
      const float* signs = frequencies.signs + 3 * column;
      for (int r = 0; r < count; r++) {
        float* y = phases + r * size;
        const float* x = block.rows + (from + r) * d;
        for (int64_t i = 0; i < d; i++) y[i] = x[i] * signs[i];
        for (int64_t i = d; i < size; i++) y[i] = 0.0f;
        hadamard(y, size);
        for (int64_t i = 0; i < size; i++) y[i] *= signs[size + i];
        hadamard(y, size);
        for (int64_t i = 0; i < size; i++) y[i] *= signs[2 * size + i];
        hadamard(y, size);
        for (int64_t i = 0; i < size; i++) y[i] *= frequencies.radii[column + i];
      }
      const int64_t width = frequencies.n_columns - column < size ? frequencies.n_columns - column : size;
      consume<W>(phases, size, count, column, width, frequencies.dither + column, given, part);
    }
  }
}

// exp(-x) for x >= 0, zero beyond 87: 2^-n by its bits, times a polynomial in what is left, within 2^-22.
inline Floats decay(Floats x) {
  const Floats y = each([](Vector a) { return a < 87.0f ? a : all(87.0f); }, x) * -1.44269504f;
  const Floats n = nearest(y), f = y - n;
  Floats p = fma(pack(0.00132647401f), f, pack(0.00967151299f));
  p = fma(p, f, pack(0.0555073358f));
  p = fma(p, f, pack(0.240222424f));
  p = fma(p, f, pack(0.693147004f));
  p = fma(p, f, pack(1.0f));
  const Bits power = bits(n + pack(kRound)) - (kRoundBits - 127u) << 23;
  const Floats size = each([](BitVector b) { return (Vector)b; }, power) * p;
  return each([](Vector a, Vector b) { return a < 87.0f ? b : Vector{}; }, x, size);
}

SKETCHLEARN_HOT void wave_pack(const float* phases, const float* exponents, float* cosines, float* sines) {
  const Addends k;
  const HalfWave half = half_wave(from_nearest(load_pack(phases)), k);
  const Floats s = half.sine * 0x1p-10f, c = half.cosine * 0x1p-10f;  // times sqrt(2)
  const Floats size = exponents ? decay(load_pack(exponents)) : pack(1.0f);
  store(cosines, subtract_product(s, s, pack(1.0f)) * size);
  store(sines, s * c * size);
}

void waves(const float* phases, const float* exponents, int64_t count, float* cosines, float* sines) {
  const int64_t whole = count - count % kPack;
  for (int64_t i = 0; i < whole; i += kPack) wave_pack(phases + i, exponents ? exponents + i : nullptr, cosines + i, sines + i);
  if (whole == count) return;
  float rest[4][kPack]{};
  for (int64_t i = whole; i < count; i++) {
    rest[0][i - whole] = phases[i];
    if (exponents) rest[1][i - whole] = exponents[i];
  }
  wave_pack(rest[0], exponents ? rest[1] : nullptr, rest[2], rest[3]);
  for (int64_t i = whole; i < count; i++) {
    cosines[i] = rest[2][i - whole];
    sines[i] = rest[3][i - whole];
  }
}

// Calls run with a value of the type that computes the feature.
template <class Run>
inline void with_feature(Feature feature, const Run& run) {
  switch (feature) {
    case Feature::exponential: return run(Exponential<2>{});
    case Feature::cosine: return run(Exponential<1>{});
    case Feature::square: return run(Square<2>{});
    case Feature::square_real: return run(Square<1>{});
    case Feature::sawtooth: return run(Sawtooth<2>{});
    case Feature::sawtooth_real: return run(Sawtooth<1>{});
    case Feature::triangle: return run(Triangle<2>{});
    case Feature::triangle_real: return run(Triangle<1>{});
    case Feature::series: return run(Series<2>{});
    case Feature::series_real: return run(Series<1>{});
    case Feature::quadratic: return run(Quadratic{});
    case Feature::quantized_cosine: return run(Quantized<Exponential<2>>{});
    case Feature::quantized_cosine_real: return run(Quantized<Exponential<1>>{});
    case Feature::quantized_sawtooth: return run(Quantized<Sawtooth<2>>{});
    case Feature::quantized_sawtooth_real: return run(Quantized<Sawtooth<1>>{});
  }
}

void run_dense(const Block& block, const DenseFrequencies& frequencies, Feature feature, const Coefficients& given,
               const Sink& sink, float* scratch) {
  with_feature(feature, [&](auto w) { dense_block<decltype(w)>(block, frequencies, given, sink, scratch); });
}
void run_structured(const Block& block, const StructuredFrequencies& frequencies, Feature feature,
                    const Coefficients& given, const Sink& sink, float* scratch) {
  with_feature(feature, [&](auto w) { structured_block<decltype(w)>(block, frequencies, given, sink, scratch); });
}

#include "compare_body.h"
#include "moments_body.h"
#include "odd_values_body.h"
#include "hash_body.h"
#include "fused_moments_body.h"
#include "cross_body.h"
#include "packed_body.h"
#include "cells_body.h"
#include "kmeans_body.h"
#include "directions_body.h"
#include "mixture_body.h"

template <class S>
constexpr KMeansLoops<S> kmeans_loops() {
  return {kRowsOfTile<S>, nearest_rows<S>, add_candidate_costs<S>, lower_squares<S>, add_weighted<S>};
}

constexpr Kernel make_kernel(const char* name) {
  return {name, kTileRows, kColumns, run_dense, run_structured, moments, odd_rows, fused_moments,
          kCrossRows, kCrossColumns, cross_values, cross, waves, comparison_space, compare,
          kSumColumns, 256 * kBytesAtOnce * kSumColumns, bit_products, signed_sums, signed_row, kHashRows, hash_tile, kTileRows, kLanes, kColumnsAtOnce<float>,
          find_cells<float>, find_cells<double>, kmeans_loops<float>(), kmeans_loops<double>(),
          read_bounded_row, panel_column, add_to_cell, add_pulls_to_cell, expect, read_whole_row, find_places, add_whole_rows};
}
