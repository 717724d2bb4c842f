// Rows in Voronoi cells: their values within bounds, the nearest of some points, and what rows add to their cell.
// Included by kernel_body.h, after fused_moments_body.h.

typedef int64_t LongVector __attribute__((vector_size(4 * kLanes)));
inline Vector load_lanes(const float* p) { return load(p); }
inline Doubles load_lanes(const double* p) { return load_doubles(p); }
inline Vector multiply_add(Vector a, Vector b, Vector c) { return fma(a, b, c); }
inline Doubles multiply_add(Doubles a, Doubles b, Doubles c) { return fused(a, b, c); }

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
typedef double WideDoubles __attribute__((vector_size(8 * kLanes)));
inline Vector differences(const float* x, const float* center) { return load(x) - load(center); }
inline Vector differences(const double* x, const double* center) {
  WideDoubles a, b;
  __builtin_memcpy(&a, x, sizeof a);
  __builtin_memcpy(&b, center, sizeof b);
  return __builtin_convertvector(a - b, Vector);
}

// The first n < kLanes values, and zeros, in `out`.
inline const float* some_values(const float* x, int64_t n, float* out) {
#if defined(SKETCHLEARN_AVX512)
  _mm512_storeu_ps(out, _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), x));
#elif defined(SKETCHLEARN_AVX2)
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  _mm256_storeu_ps(out, _mm256_maskload_ps(x, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane)));
#else
  for (int i = 0; i < kLanes; i++) out[i] = i < n ? x[i] : 0.0f;
#endif
  return out;
}
inline const double* some_values(const double* x, int64_t n, double* out) {
#if defined(SKETCHLEARN_AVX512)
  const uint32_t mask = (1u << n) - 1;
  _mm512_storeu_pd(out, _mm512_maskz_loadu_pd((__mmask8)mask, x));
  _mm512_storeu_pd(out + 8, _mm512_maskz_loadu_pd((__mmask8)(mask >> 8), x + 8));
#else
  for (int i = 0; i < kLanes; i++) out[i] = i < n ? x[i] : 0.0;
#endif
  return out;
}

inline bool any_lane(IntVector mask) {
  int64_t words[kLanes / 2], any = 0;
  __builtin_memcpy(words, &mask, sizeof words);
  for (int i = 0; i < kLanes / 2; i++) any |= words[i];
  return any != 0;
}

// Of a row with a value that is not finite, or became so: one by one.
template <class T>
int odd_values(const T* x, int64_t stride, const T* center, const float* scale, int64_t d, float* out) {
  constexpr T kMost = sizeof(T) == sizeof(float) ? static_cast<T>(__FLT_MAX__) : static_cast<T>(__DBL_MAX__);
  int odd = 0;
  for (int64_t k = 0; k < d; k++) {
    const T value = x[k * stride];
    const float v = static_cast<float>(value - center[k]) * scale[k];
    const float low = v < -kCellUnit ? -kCellUnit : v, inside = low > kCellUnit ? kCellUnit : low;
    out[k] = inside;
    odd |= ((value < 0 ? -value : value) <= kMost ? 0 : kRowBad) | (inside != v ? kRowClipped : 0);
  }
  return odd;
}

// v = (x - center) scale, onto the bound where it is beyond. Bits of the result: kRowClipped, kRowBad where a value is not
// finite. Written up to whole vectors, with zeros beyond d; center and scale are zeros there.
template <class T>
inline int bounded_values(const T* x, int64_t stride, const T* center, const float* scale, int64_t d, float* out) {
  Vector not_finite{};  // zeros, until a value times zero is none
  IntVector clipped{};
  const auto take = [&](const T* values, int64_t k) {
    const Vector v = differences(values, center + k) * load(scale + k), inside = clamped(v, kCellUnit);
    not_finite = fma(v, Vector{}, not_finite);
    clipped |= inside != v;
    store(out + k, inside);
  };
  int64_t k = 0;
  T rest[kLanes];
  if (stride == 1) {
    for (; k + kLanes <= d; k += kLanes) take(x + k, k);
    if (k < d) take(some_values(x + k, d - k, rest), k);
  } else {
    for (; k < d; k += kLanes) {
      for (int i = 0; i < kLanes; i++) rest[i] = k + i < d ? x[(k + i) * stride] : T{};
      take(rest, k);
    }
  }
  if (any_lane(not_finite != 0.0f)) return odd_values(x, stride, center, scale, d, out);
  return any_lane(clipped) ? kRowClipped : 0;
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

#if defined(SKETCHLEARN_AVX512)
inline uint32_t lanes_of_mask(IntVector mask) { return _mm512_movepi32_mask((__m512i)mask); }
inline uint32_t lanes_of_mask(LongVector mask) { return _mm512_movepi64_mask((__m512i)mask); }
#elif defined(SKETCHLEARN_AVX2)
inline uint32_t lanes_of_mask(IntVector mask) { return (uint32_t)_mm256_movemask_ps((__m256)mask); }
inline uint32_t lanes_of_mask(LongVector mask) { return (uint32_t)_mm256_movemask_pd((__m256d)mask); }
#endif

// The least of all lanes, in each of them.
template <class V, class Index, int H>
inline V least_of_pairs(V v) {
  Index order{};
  for (int i = 0; i < (int)(sizeof(V) / sizeof(v[0])); i++) order[i] = i ^ H;
#if defined(__clang__)
  V other{};
  for (int i = 0; i < (int)(sizeof(V) / sizeof(v[0])); i++) other[i] = v[i ^ H];
#else
  const V other = __builtin_shuffle(v, order);
#endif
  return v < other ? v : other;
}
template <class Index, class V>
inline V least_lane(V v) {
  constexpr int kWidth = sizeof(V) / sizeof(v[0]);
  if constexpr (kWidth > 8) v = least_of_pairs<V, Index, 8 % kWidth>(v);
  if constexpr (kWidth > 4) v = least_of_pairs<V, Index, 4 % kWidth>(v);
  if constexpr (kWidth > 2) v = least_of_pairs<V, Index, 2 % kWidth>(v);
  return least_of_pairs<V, Index, 1>(v);
}

// The first of the places that have the least score of all lanes.
template <class S>
inline typename Lanes<S>::Position place_of_least(NumbersOf<S> best, typename Lanes<S>::Positions at) {
  typedef typename Lanes<S>::Positions Positions;
  const auto lowest = (Positions)(best == least_lane<Positions>(best));  // clang has another name for its type
#if defined(SKETCHLEARN_AVX512) || defined(SKETCHLEARN_AVX2)
  typename Lanes<S>::Position places[Lanes<S>::kCount];
  __builtin_memcpy(places, &at, sizeof at);
  uint32_t mask = lanes_of_mask(lowest);  // most often of one lane
  typename Lanes<S>::Position found = places[__builtin_ctz(mask)];
  while (__builtin_expect((mask &= mask - 1) != 0, 0)) {
    const typename Lanes<S>::Position other = places[__builtin_ctz(mask)];
    found = other < found ? other : found;
  }
  return found;
#else
  return least_lane<Positions>(lowest ? at : Positions{} + 0x7fffffff)[0];
#endif
}

// What least_scores knows of rows so far, lane by lane, and a panel of points: where it begins, and whether it is the first or
// the last one.
template <class S>
struct ScoresSoFar {
  S* least;
  typename Lanes<S>::Position* where;
  const S *panel, *halves;
  int64_t column;
  bool first, last;
};

// Of each row, the least of half a point's square less its product with the row, and where it is; the first of equal ones.
// Products are chains of fused multiply-adds, k ascending. Whole tiles of rows, of which `count` have labels.
template <class S, int V>
SKETCHLEARN_HOT void least_scores(const S* rows, int64_t count, int64_t stride, int64_t depth, const ScoresSoFar<S>& so_far,
                                  int32_t* labels) {
  typedef NumbersOf<S> Numbers;
  typedef typename Lanes<S>::Positions Positions;
  constexpr int kWidth = Lanes<S>::kCount;
  Positions lane{};
  for (int i = 0; i < kWidth; i++) lane[i] = (typename Lanes<S>::Position)so_far.column + i;
  for (int64_t first = 0; first < count; first += kTileRows, rows += kTileRows * stride) {
    Numbers sum[kTileRows][V];
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; r++)
#pragma GCC unroll 8
      for (int v = 0; v < V; v++) sum[r][v] = Numbers{};
    for (int64_t k = 0; k < depth; k += kColumnsAtOnce<S>) multiply_tile<V>(rows + k, stride, so_far.panel + k * V * kWidth, sum);
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; r++) {
      S* least = so_far.least + (first + r) * kWidth;
      typename Lanes<S>::Position* where = so_far.where + (first + r) * kWidth;
      Numbers best = __builtin_inff() - Numbers{};
      Positions at{};
      if (!so_far.first) {
        best = load_lanes(least);
        __builtin_memcpy(&at, where, sizeof at);
      }
#pragma GCC unroll 8
      for (int v = 0; v < V; v++) {
        const Numbers score = load_lanes(so_far.halves + v * kWidth) - sum[r][v];
        const auto closer = score < best;
        best = closer ? score : best;
        at = closer ? lane + v * kWidth : at;
      }
      if (!so_far.last) {
        __builtin_memcpy(least, &best, sizeof best);
        __builtin_memcpy(where, &at, sizeof at);
      } else if (first + r < count) {
        labels[first + r] = (int32_t)place_of_least<S>(best, at);
      }
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
  constexpr int kWidth = Lanes<S>::kCount;
  alignas(64) S least[kBlockRows * kWidth];
  alignas(64) typename Lanes<S>::Position where[kBlockRows * kWidth];
  int64_t vectors = points.n_padded / kWidth, column = 0;
  while (vectors > 0) {
    const int64_t v = panel_vectors(vectors);
    const ScoresSoFar<S> so_far{least, where, points.panels + column * points.depth, points.halves + column, column,
                                column == 0, v == vectors};
    const auto run = v == 1 ? least_scores<S, 1> : v == 2 || kTileVectors < 3 ? least_scores<S, 2>
                   : v == 3 ? least_scores<S, 3> : least_scores<S, 4>;
    run(values, count, stride, points.depth, so_far, labels);
    vectors -= v, column += v * kWidth;
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

// Integers of a vector in two of int64.
inline void add_wide(IntVector v, LongVector* sum) {
#if defined(SKETCHLEARN_AVX512)
  sum[0] += (LongVector)_mm512_maskz_cvtepi32_epi64(0xff, _mm512_maskz_extracti64x4_epi64(0xf, (__m512i)v, 0));
  sum[1] += (LongVector)_mm512_maskz_cvtepi32_epi64(0xff, _mm512_maskz_extracti64x4_epi64(0xf, (__m512i)v, 1));
#elif defined(SKETCHLEARN_AVX2)
  sum[0] += (LongVector)_mm256_cvtepi32_epi64(_mm256_castsi256_si128((__m256i)v));
  sum[1] += (LongVector)_mm256_cvtepi32_epi64(_mm256_extracti128_si256((__m256i)v, 1));
#elif defined(SKETCHLEARN_NEON)
  sum[0] = (LongVector)vaddw_s32((int64x2_t)sum[0], vget_low_s32((int32x4_t)v));
  sum[1] = (LongVector)vaddw_high_s32((int64x2_t)sum[1], (int32x4_t)v);
#else
  for (int i = 0; i < kLanes; i++) sum[2 * i / kLanes][i % (kLanes / 2)] += v[i];
#endif
}

inline IntVector as_integers(Vector whole) { return __builtin_convertvector(whole, IntVector); }

// Adds the sums of two vectors to `live` integers.
inline void add_integers(const LongVector* sum, int64_t live, int64_t* out) {
  int64_t part[kLanes];
  __builtin_memcpy(part, sum, sizeof part);
  for (int64_t i = 0; i < (live < kLanes ? live : kLanes); i++) out[i] += part[i];
}

// Adds the counts, squares and values of some rows, in steps of 2^-30, to the sums of their cell. Rows are readable up to the
// next whole vector.
template <bool Weighted>
SKETCHLEARN_HOT void add_rows_to_cell(const float* values, int64_t stride, const int32_t* rows, int64_t count, int64_t d,
                                      const int64_t* weights, int64_t* __restrict sums) {
  constexpr int64_t kOne = int64_t{1} << 30;
  constexpr float kStep = (float)kOne / kCellUnit;
  int64_t total = Weighted ? 0 : count;
  for (int64_t i = 0; Weighted && i < count; i++) total += weights[rows[i]];
  sums[0] += total * kOne;
  int64_t *squares = sums + 1, *totals = sums + 1 + d;
  for (int64_t k = 0; k < d; k += kLanes) {
    LongVector square[2]{}, sum[2]{};
    for (int64_t i = 0; i < count; i++) {
      const Vector value = load(values + rows[i] * stride + k), small = value * kCellSquareUnit;
      const IntVector own_square = as_integers(nearest(small * small)), own = as_integers(nearest(value * kStep));
      if constexpr (Weighted) {
        LongVector wide[4]{};
        add_wide(own_square, wide), add_wide(own, wide + 2);
        const int64_t w = weights[rows[i]];
        square[0] += wide[0] * w, square[1] += wide[1] * w, sum[0] += wide[2] * w, sum[1] += wide[3] * w;
      } else {
        add_wide(own_square, square), add_wide(own, sum);
      }
    }
    add_integers(square, d - k, squares + k), add_integers(sum, d - k, totals + k);
  }
}
void add_to_cell(const float* values, int64_t stride, const int32_t* rows, int64_t count, int64_t d, const int64_t* weights,
                 int64_t* sums) {
  (weights ? add_rows_to_cell<true> : add_rows_to_cell<false>)(values, stride, rows, count, d, weights, sums);
}

// One over the distances of some rows from a point, or over its radius where they are nearer; distances are chains of fused
// multiply-adds, k ascending, of several rows side by side.
constexpr int kPulledRows = 8;
inline void find_distances(const float* const* rows, int64_t d, const MedianPoint& at, float* distances, float* inverses) {
  float squares[kPulledRows]{};
  for (int64_t k = 0; k < d; k++) {
    for (int i = 0; i < kPulledRows; i++) {
      const float away = __builtin_fmaf(rows[i][k], at.factors[k], -at.place[k]);
      squares[i] = __builtin_fmaf(away, away, squares[i]);
    }
  }
  for (int i = 0; i < kPulledRows; i++) {
    distances[i] = __builtin_sqrtf(squares[i]);
    inverses[i] = 1.0f / (distances[i] > at.radius ? distances[i] : at.radius);
  }
}

// What a step of Weiszfeld's algorithm needs of some rows of a cell: the sums of their distances; of radius / distance; and of
// unit vectors towards them.
template <bool Weighted>
SKETCHLEARN_HOT void add_rows_pulls(const float* values, int64_t stride, const int32_t* rows, int64_t count, int64_t d,
                                    const MedianPoint& at, const int64_t* weights, int64_t* __restrict sums) {
  for (int64_t first = 0; first < count; first += kPulledRows) {
    const int n = (int)(count - first < kPulledRows ? count - first : kPulledRows);
    const float* own[kPulledRows];
    float distances[kPulledRows], inverses[kPulledRows];
    int64_t w[kPulledRows];
    for (int i = 0; i < kPulledRows; i++) {
      const int32_t row = rows[first + (i < n ? i : 0)];
      own[i] = values + row * stride;
      if constexpr (Weighted) w[i] = weights[row];
    }
    find_distances(own, d, at, distances, inverses);
    for (int i = 0; i < n; i++) {
      const int64_t distance = (int64_t)__builtin_rintf(distances[i] * at.distance_unit);
      const int64_t pull = (int64_t)__builtin_rintf(at.radius * inverses[i] * kPullUnit);
      sums[0] += Weighted ? distance * w[i] : distance;
      sums[1] += Weighted ? pull * w[i] : pull;
    }
    for (int64_t k = 0; k < d; k += kLanes) {
      const Vector factor = load(at.factors + k), place = load(at.place + k);
      LongVector sum[2]{};
      for (int i = 0; i < n; i++) {
        const Vector towards = fma(load(own[i] + k), factor, -place) * inverses[i];
        const IntVector whole = as_integers(nearest(towards * kPullUnit));
        if constexpr (Weighted) {
          LongVector wide[2]{};
          add_wide(whole, wide);
          sum[0] += wide[0] * w[i], sum[1] += wide[1] * w[i];
        } else {
          add_wide(whole, sum);
        }
      }
      add_integers(sum, d - k, sums + 2 + k);
    }
  }
}
void add_pulls_to_cell(const float* values, int64_t stride, const int32_t* rows, int64_t count, int64_t d, const MedianPoint& at,
                       const int64_t* weights, int64_t* sums) {
  (weights ? add_rows_pulls<true> : add_rows_pulls<false>)(values, stride, rows, count, d, at, weights, sums);
}
