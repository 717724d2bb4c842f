// First and second moments whose products are rounded once, to an integer, by the fused multiply-add that adds them up.
// Included by kernel_body.h, after moments_body.h.
//
// A sum starts at 1.5 * 2^52 and stays between 2^52 and 2^53, where float64 holds the integers and nothing between them:
// so every addition rounds its product to the nearest integer, whatever the sum. A product half-way between two integers
// would go to the even sum, and the order of records would matter; but the last bit of every factor is set
// (docs/reference/arithmetic.md), and then no product is half-way.
constexpr int kFusedRows = kLanes == 16 ? 8 : 4;         // a tile of products: so many rows of the matrix,
constexpr int kFusedColumns = kMomentsPadding;           // and so many columns
constexpr int kFusedVectors = kFusedColumns / kDoubles;
static_assert(kMomentsPadding % kFusedRows == 0, "rows are padded to whole tiles");
static_assert(kBlockRows <= 1 << 20, "sums of products up to 2^30 stay within 2^51 of their start");

#if defined(SKETCHLEARN_AVX512)
inline Doubles fused(Doubles a, Doubles b, Doubles c) { return (Doubles)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c); }
#elif defined(SKETCHLEARN_AVX2)
inline Doubles fused(Doubles a, Doubles b, Doubles c) { return (Doubles)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c); }
#elif defined(SKETCHLEARN_NEON)
inline Doubles fused(Doubles a, Doubles b, Doubles c) { return (Doubles)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b); }
#else
inline Doubles fused(Doubles a, Doubles b, Doubles c) {
  for (int i = 0; i < kDoubles; i++) c[i] = __builtin_fma(a[i], b[i], c[i]);
  return c;
}
#endif

inline void store_bits(uint64_t* p, Doubles v) { __builtin_memcpy(p, &v, sizeof v); }

// The sums of a[r] y[k] over `count` records, of one tile, from 1.5 * 2^52 on; a and y are `stride` apart.
SKETCHLEARN_HOT void fused_moment_tile(const double* a, const double* y, int64_t stride, int64_t count,
                                       uint64_t (*tile)[kFusedColumns]) {
  if (count < 1) __builtin_unreachable();  // or the compiler saves all sums around an empty loop
  Doubles sum[kFusedRows][kFusedVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kFusedRows; r++)
#pragma GCC unroll 4
    for (int v = 0; v < kFusedVectors; v++) sum[r][v] = kMomentRound - Doubles{};
  for (int64_t i = 0; i < count; i++, a += stride, y += stride) {
    Doubles columns[kFusedVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kFusedVectors; v++) columns[v] = load_doubles(y + v * kDoubles);
#if defined(SKETCHLEARN_NEON)  // multiplies by a lane of a register: fewer loads, 245 instead of 269 ns at 50 columns
#pragma GCC unroll 2
    for (int r = 0; r < kFusedRows; r += 2) {
      const float64x2_t pair = vld1q_f64(a + r);
#pragma GCC unroll 4
      for (int v = 0; v < kFusedVectors; v++) sum[r][v] = vfmaq_laneq_f64(sum[r][v], columns[v], pair, 0);
#pragma GCC unroll 4
      for (int v = 0; v < kFusedVectors; v++) sum[r + 1][v] = vfmaq_laneq_f64(sum[r + 1][v], columns[v], pair, 1);
    }
#else
#pragma GCC unroll 8
    for (int r = 0; r < kFusedRows; r++)
#pragma GCC unroll 4
      for (int v = 0; v < kFusedVectors; v++) sum[r][v] = fused(columns[v], a[r] - Doubles{}, sum[r][v]);
#endif
  }
#pragma GCC unroll 8
  for (int r = 0; r < kFusedRows; r++)
#pragma GCC unroll 4
    for (int v = 0; v < kFusedVectors; v++) store_bits(tile[r] + v * kDoubles, sum[r][v]);
}

// Row j of the matrix of products: the lower triangle's, and for j = d, where records are constant, first moments.
inline int64_t* fused_sums(int64_t* sums, int64_t d, int64_t j) { return j == d ? sums : sums + d + j * (j + 1) / 2; }

void fused_moments(const double* rows, int64_t count, int64_t stride, int64_t d, const int64_t* weights, int64_t* sums) {
  if (weights) {
    for (int64_t i = 0; i < count; i++)
      for (int64_t j = 0; j <= d; j++) {
        const double* y = rows + i * stride;
        int64_t* out = fused_sums(sums, d, j);
        for (int64_t k = 0; k <= j && k < d; k++) {
          const double rounded = __builtin_fma(y[j], y[k], kMomentRound);
          int64_t integer;
          __builtin_memcpy(&integer, &rounded, sizeof integer);
          out[k] += weights[i] * (integer - kMomentBias);
        }
      }
    return;
  }
  uint64_t tile[kFusedRows][kFusedColumns];
  for (int64_t j = 0; j <= d; j += kFusedRows)
    for (int64_t k = 0; k < j + kFusedRows && k < d; k += kFusedColumns) {
      fused_moment_tile(rows + j, rows + k, stride, count, tile);
      for (int64_t r = j; r < j + kFusedRows && r <= d; r++) {
        int64_t* out = fused_sums(sums, d, r);
        for (int64_t c = k; c < k + kFusedColumns && c <= r && c < d; c++)
          out[c] += static_cast<int64_t>(tile[r - j][c - k]) - kMomentBias;
      }
    }
}
