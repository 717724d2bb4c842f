// Rows in Voronoi cells: their values within bounds, the nearest of some points, and what rows add to their cell.
// Included by kernel_body.h, after nearest_body.h.

// A value onto [-most, most]; which bound NaN becomes is not said.
inline Vector clamped(Vector v, float most) {
#if defined(SKETCHLEARN_AVX512)
  return (Vector)_mm512_maskz_min_ps(0xffff, _mm512_maskz_max_ps(0xffff, (__m512)v, (__m512)all(-most)), (__m512)all(most));
#elif defined(SKETCHLEARN_AVX2)
  return (Vector)_mm256_min_ps(_mm256_max_ps((__m256)v, (__m256)all(-most)), (__m256)all(most));
#elif defined(SKETCHLEARN_NEON)
  return (Vector)vminq_f32(vmaxq_f32((float32x4_t)v, vdupq_n_f32(-most)), vdupq_n_f32(most));
#else
  const Vector low = v < -most ? all(-most) : v;
  return low > most ? all(most) : low;
#endif
}

// x - center in its own precision, then in float32.
inline Vector differences(const float* x, const float* center) { return load(x) - load(center); }
inline Vector differences(const double* x, const double* center) {
  typedef double Wide __attribute__((vector_size(8 * kLanes)));
  Wide a, b;
  __builtin_memcpy(&a, x, sizeof a);
  __builtin_memcpy(&b, center, sizeof b);
  return __builtin_convertvector(a - b, Vector);
}

inline bool any_lane(IntVector mask) {
  int64_t words[kLanes / 2], any = 0;
  __builtin_memcpy(words, &mask, sizeof words);
  for (int i = 0; i < kLanes / 2; i++) any |= words[i];
  return any != 0;
}

// v = (x - center) scale, onto the bound where it is beyond. Bits of the result: kRowClipped, kRowBad where a value is not
// finite. Written up to a multiple of kCellPadding, with zeros beyond d.
template <class T>
inline int bounded_values(const T* x, int64_t stride, const T* center, const float* scale, int64_t d, float* out) {
  constexpr T kMost = sizeof(T) == sizeof(float) ? static_cast<T>(__FLT_MAX__) : static_cast<T>(__DBL_MAX__);
  int odd = 0;
  int64_t k = 0;
  if (stride == 1 && d >= kLanes) {
    Vector not_finite{};  // zeros, until a value times zero is none
    IntVector clipped{};
    for (; k < d; k += kLanes) {
      k = k + kLanes <= d ? k : d - kLanes;  // the last vector has some values again
      const Vector v = differences(x + k, center + k) * load(scale + k), inside = clamped(v, kCellUnit);
      not_finite = fma(v, Vector{}, not_finite);
      clipped |= inside != v;
      store(out + k, inside);
    }
    k = d;
    if (any_lane(clipped)) odd = kRowClipped;
    if (any_lane(not_finite != 0.0f)) k = 0;  // one by one: a finite value may have become infinite
  }
  for (; k < d; k++) {
    const T value = x[k * stride];
    const float v = static_cast<float>(value - center[k]) * scale[k];
    const float low = v < -kCellUnit ? -kCellUnit : v, inside = low > kCellUnit ? kCellUnit : low;
    out[k] = inside;
    odd |= ((value < 0 ? -value : value) <= kMost ? 0 : kRowBad) | (inside != v ? kRowClipped : 0);
  }
  for (; k % kCellPadding; k++) out[k] = 0.0f;
  return odd;
}

int read_bounded_row(const CellRows& rows, int64_t i, float* out) {
  const int64_t at = i * rows.row_stride;
  return rows.is_double ? bounded_values(static_cast<const double*>(rows.data) + at, rows.column_stride, rows.center_double,
                                       rows.scale, rows.n_features, out)
                        : bounded_values(static_cast<const float*>(rows.data) + at, rows.column_stride, rows.center_float,
                                       rows.scale, rows.n_features, out);
}

// Numbers of one precision, and positions as wide, in vectors.
template <class S>
struct Lanes;
template <>
struct Lanes<float> {
  typedef Vector Numbers;
  typedef int32_t Position;
  typedef IntVector Positions;
  static constexpr int kCount = kLanes;
};
template <>
struct Lanes<double> {
  typedef Doubles Numbers;
  typedef int64_t Position;
  typedef LongVector Positions;
  static constexpr int kCount = kDoubles;
};
template <class S>
using NumbersOf = typename Lanes<S>::Numbers;

// a b + c. Numbers of float64 are whole, so that it is exact without a fused operation, too, which the portable kernel lacks.
inline Vector add_product(Vector a, Vector b, Vector c) { return fma(a, b, c); }
#if defined(SKETCHLEARN_NEON) || defined(SKETCHLEARN_AVX2) || defined(SKETCHLEARN_AVX512)
inline Doubles add_product(Doubles a, Doubles b, Doubles c) { return fused(a, b, c); }
#else
inline Doubles add_product(Doubles a, Doubles b, Doubles c) { return a * b + c; }
#endif

// sum[r][v] += x[r][k] * panel[k][v], for one k (on NEON for a vector of them: fmla takes its scalar from a lane).
#if defined(SKETCHLEARN_NEON)
template <class S>
constexpr int kColumnsAtOnce = Lanes<S>::kCount;
template <int Lane>
inline Vector add_by_lane(Vector sum, Vector w, Vector x) { return (Vector)vfmaq_laneq_f32((float32x4_t)sum, (float32x4_t)w, (float32x4_t)x, Lane); }
template <int Lane>
inline Doubles add_by_lane(Doubles sum, Doubles w, Doubles x) { return (Doubles)vfmaq_laneq_f64((float64x2_t)sum, (float64x2_t)w, (float64x2_t)x, Lane); }
template <int V, int Lane, class S>
inline void multiply_columns(const NumbersOf<S>* lanes, const S* panel, NumbersOf<S> (*sum)[V]) {
#pragma GCC unroll 8
  for (int v = 0; v < V; v++) {
    const NumbersOf<S> w = load_lanes(panel + (Lane * V + v) * Lanes<S>::kCount);
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; r++) sum[r][v] = add_by_lane<Lane>(sum[r][v], w, lanes[r]);
  }
}
template <int V, class S>
inline void multiply_tile(const S* x, int64_t stride, const S* panel, NumbersOf<S> (*sum)[V]) {
  NumbersOf<S> lanes[kTileRows];
#pragma GCC unroll 8
  for (int r = 0; r < kTileRows; r++) lanes[r] = load_lanes(x + r * stride);
  multiply_columns<V, 0>(lanes, panel, sum);
  multiply_columns<V, 1>(lanes, panel, sum);
  if constexpr (Lanes<S>::kCount == 4) {
    multiply_columns<V, 2>(lanes, panel, sum);
    multiply_columns<V, 3>(lanes, panel, sum);
  }
}
#else
template <class S>
constexpr int kColumnsAtOnce = 1;
template <int V, class S>
inline void multiply_tile(const S* x, int64_t stride, const S* panel, NumbersOf<S> (*sum)[V]) {
  NumbersOf<S> w[V];
#pragma GCC unroll 8
  for (int v = 0; v < V; v++) w[v] = load_lanes(panel + v * Lanes<S>::kCount);
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; r++)
#pragma GCC unroll 8
    for (int v = 0; v < V; v++) sum[r][v] = add_product(x[r * stride] - NumbersOf<S>{}, w[v], sum[r][v]);
}
#endif

// Of each row, the least of half a point's square less its product with the row, lane by lane, and where it is; the first of
// equal ones. Products are chains of fused multiply-adds, k ascending. count: whole tiles.
template <class S, int V>
SKETCHLEARN_HOT void least_scores(const S* rows, int64_t count, int64_t stride, const S* panel, const S* halves,
                                  typename Lanes<S>::Position column, S* least, typename Lanes<S>::Position* where) {
  constexpr int kWidth = Lanes<S>::kCount;
  typename Lanes<S>::Positions lane{};
  for (int i = 0; i < kWidth; i++) lane[i] = column + i;
  for (int64_t first = 0; first < count; first += kTileRows, rows += kTileRows * stride) {
    NumbersOf<S> sum[kTileRows][V];
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; r++)
#pragma GCC unroll 8
      for (int v = 0; v < V; v++) sum[r][v] = NumbersOf<S>{};
    for (int64_t k = 0; k < stride; k += kColumnsAtOnce<S>) multiply_tile<V>(rows + k, stride, panel + k * V * kWidth, sum);
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; r++, least += kWidth, where += kWidth) {
      NumbersOf<S> best = load_lanes(least);
      typename Lanes<S>::Positions at;
      __builtin_memcpy(&at, where, sizeof at);
#pragma GCC unroll 8
      for (int v = 0; v < V; v++) {
        const NumbersOf<S> score = load_lanes(halves + v * kWidth) - sum[r][v];
        const auto closer = score < best;
        best = closer ? score : best;
        at = closer ? lane + v * kWidth : at;
      }
      __builtin_memcpy(least, &best, sizeof best);
      __builtin_memcpy(where, &at, sizeof at);
    }
  }
}

// Columns of panels that come next, of `vectors` that are left: panels are about the same width.
inline int64_t panel_vectors(int64_t vectors) {
  const int64_t n_panels = (vectors + kTileVectors - 1) / kTileVectors;
  return (vectors + n_panels - 1) / n_panels;
}

// The first of the nearest points to each row. `values` has room for whole tiles of rows.
template <class S>
void find_cells(const S* values, int64_t count, int64_t stride, const CellPoints<S>& points, int32_t* labels) {
  typedef typename Lanes<S>::Position Position;
  constexpr int kWidth = Lanes<S>::kCount;
  alignas(64) S least[kBlockRows * kWidth];
  alignas(64) Position where[kBlockRows * kWidth];
  const int64_t padded = (count + kTileRows - 1) / kTileRows * kTileRows;
  for (int64_t i = 0; i < padded * kWidth; i++) least[i] = __builtin_inff(), where[i] = 0;
  int64_t vectors = points.n_padded / kWidth, column = 0;
  while (vectors > 0) {
    const int64_t v = panel_vectors(vectors);
    const S *panel = points.panels + column * stride, *halves = points.halves + column;
    const auto run = v == 1 ? least_scores<S, 1> : v == 2 || kTileVectors < 3 ? least_scores<S, 2> : v == 3 ? least_scores<S, 3> : least_scores<S, 4>;
    run(values, padded, stride, panel, halves, (Position)column, least, where);
    vectors -= v, column += v * kWidth;
  }
  for (int64_t r = 0; r < count; r++) {
    S best = least[r * kWidth];
    Position found = where[r * kWidth];
    for (int i = 1; i < kWidth; i++) {
      const S score = least[r * kWidth + i];
      const Position at = where[r * kWidth + i];
      const bool closer = score < best || (score == best && at < found);
      best = closer ? score : best;
      found = closer ? at : found;
    }
    labels[r] = (int32_t)found;
  }
}

// How columns lie in panels, `lanes` to a vector: those that multiply_tile reads.
PanelColumn panel_column(int64_t c, int64_t lanes, int64_t n_padded, int64_t depth) {
  int64_t vectors = n_padded / lanes, column = 0;
  for (;;) {
    const int64_t v = panel_vectors(vectors);
    if (c < column + v * lanes) return {column * depth + (c - column), v * lanes};
    vectors -= v, column += v * lanes;
  }
}

inline void add_wide(int64_t* sums, IntVector v) {
#if defined(SKETCHLEARN_NEON)
  vst1q_s64(sums, vaddw_s32(vld1q_s64(sums), vget_low_s32((int32x4_t)v)));
  vst1q_s64(sums + 2, vaddw_high_s32(vld1q_s64(sums + 2), (int32x4_t)v));
#else
  for (int i = 0; i < kLanes; i++) sums[i] += v[i];
#endif
}

// Adds a row's count, squares and values, in steps of 2^-30, to the sums of its cell.
SKETCHLEARN_HOT void add_to_cell(const float* values, int64_t d, const int64_t* weight, int64_t* __restrict sums) {
  constexpr int64_t kOne = int64_t{1} << 30;
  constexpr float kStep = (float)kOne / kCellUnit;
  const int64_t w = weight ? *weight : 1;
  sums[0] += w * kOne;
  int64_t *squares = sums + 1, *totals = sums + 1 + d, k = 0;
  for (; w == 1 && k + kLanes <= d; k += kLanes) {
    const Vector value = load(values + k), small = value * kCellSquareUnit;
    add_wide(squares + k, __builtin_convertvector(nearest(small * small), IntVector));
    add_wide(totals + k, __builtin_convertvector(nearest(value * kStep), IntVector));
  }
  for (; k < d; k++) {
    const float small = values[k] * kCellSquareUnit, square = small * small;
    squares[k] += w * (int64_t)__builtin_rintf(square);
    totals[k] += w * (int64_t)__builtin_rintf(values[k] * kStep);
  }
}
