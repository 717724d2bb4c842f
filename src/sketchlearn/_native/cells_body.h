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

// sum[r][v] += x[r][k] * panel[k][v], for one k (four on NEON, where fmla takes its scalar from a lane).
#if defined(SKETCHLEARN_NEON)
constexpr int kColumnsAtOnce = 4;
template <int V, int Lane>
inline void multiply_columns(const float32x4_t* lanes, const float* panel, Vector (*sum)[V]) {
#pragma GCC unroll 8
  for (int v = 0; v < V; v++) {
    const float32x4_t w = (float32x4_t)load(panel + (Lane * V + v) * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; r++) sum[r][v] = (Vector)vfmaq_laneq_f32((float32x4_t)sum[r][v], w, lanes[r], Lane);
  }
}
template <int V>
inline void multiply_cells(const float* x, int64_t stride, const float* panel, Vector (*sum)[V]) {
  float32x4_t lanes[kTileRows];
#pragma GCC unroll 8
  for (int r = 0; r < kTileRows; r++) lanes[r] = vld1q_f32(x + r * stride);
  multiply_columns<V, 0>(lanes, panel, sum);
  multiply_columns<V, 1>(lanes, panel, sum);
  multiply_columns<V, 2>(lanes, panel, sum);
  multiply_columns<V, 3>(lanes, panel, sum);
}
#else
constexpr int kColumnsAtOnce = 1;
template <int V>
inline void multiply_cells(const float* x, int64_t stride, const float* panel, Vector (*sum)[V]) {
  Vector w[V];
#pragma GCC unroll 8
  for (int v = 0; v < V; v++) w[v] = load(panel + v * kLanes);
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; r++)
#pragma GCC unroll 8
    for (int v = 0; v < V; v++) sum[r][v] = fma(all(x[r * stride]), w[v], sum[r][v]);
}
#endif

// Of each row, the least of half a point's square less its product with the row, lane by lane, and where it is; the first of
// equal ones. Products are chains of fused multiply-adds, k ascending. count: whole tiles.
template <int V>
SKETCHLEARN_HOT void least_scores(const float* rows, int64_t count, int64_t stride, const float* panel, const float* halves,
                                  int32_t column, float* least, int32_t* where) {
  IntVector lane{};
  for (int i = 0; i < kLanes; i++) lane[i] = column + i;
  for (int64_t first = 0; first < count; first += kTileRows, rows += kTileRows * stride) {
    Vector sum[kTileRows][V];
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; r++)
#pragma GCC unroll 8
      for (int v = 0; v < V; v++) sum[r][v] = Vector{};
    for (int64_t k = 0; k < stride; k += kColumnsAtOnce) multiply_cells<V>(rows + k, stride, panel + k * V * kLanes, sum);
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; r++, least += kLanes, where += kLanes) {
      Vector best = load(least);
      IntVector at;
      __builtin_memcpy(&at, where, sizeof at);
#pragma GCC unroll 8
      for (int v = 0; v < V; v++) {
        const Vector score = load(halves + v * kLanes) - sum[r][v];
        const auto closer = score < best;
        best = closer ? score : best;
        at = closer ? lane + v * kLanes : at;
      }
      store(least, best);
      __builtin_memcpy(where, &at, sizeof at);
    }
  }
}

// The first of the nearest points to each row. `values` has room for whole tiles of rows.
void find_cells(const float* values, int64_t count, int64_t stride, const CellPoints& points, int32_t* labels) {
  alignas(64) float least[kBlockRows * kLanes];
  alignas(64) int32_t where[kBlockRows * kLanes];
  const int64_t padded = (count + kTileRows - 1) / kTileRows * kTileRows;
  for (int64_t i = 0; i < padded * kLanes; i++) least[i] = __builtin_inff(), where[i] = 0;
  int64_t vectors = points.n_padded / kLanes, column = 0;
  while (vectors > 0) {  // panels of about the same width
    const int64_t n_panels = (vectors + kTileVectors - 1) / kTileVectors, v = (vectors + n_panels - 1) / n_panels;
    const float *panel = points.panels + column * stride, *halves = points.halves + column;
    const auto run = v == 1 ? least_scores<1> : v == 2 || kTileVectors < 3 ? least_scores<2> : v == 3 ? least_scores<3> : least_scores<4>;
    run(values, padded, stride, panel, halves, (int32_t)column, least, where);
    vectors -= v, column += v * kLanes;
  }
  for (int64_t r = 0; r < count; r++) {
    float best = least[r * kLanes];
    int32_t found = where[r * kLanes];
    for (int i = 1; i < kLanes; i++) {
      const float score = least[r * kLanes + i];
      const int32_t at = where[r * kLanes + i];
      const bool closer = score < best || (score == best && at < found);
      best = closer ? score : best;
      found = closer ? at : found;
    }
    labels[r] = found;
  }
}

// How points lie in panels: column c of `count`, row k of d, at the address that find_cells reads.
int64_t cell_panel_at(int64_t c, int64_t k, int64_t n_padded, int64_t stride) {
  int64_t vectors = n_padded / kLanes, column = 0;
  for (;;) {
    const int64_t n_panels = (vectors + kTileVectors - 1) / kTileVectors, v = (vectors + n_panels - 1) / n_panels;
    if (c < column + v * kLanes) return column * stride + k * v * kLanes + (c - column);
    vectors -= v, column += v * kLanes;
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
