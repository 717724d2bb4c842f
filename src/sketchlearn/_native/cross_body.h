// Products of features and values, summed over records: each product is rounded once, to an integer, by the fused
// multiply-add that adds it up, as in fused_moments_body.h. Included by kernel_body.h, after that.
#if defined(SKETCHLEARN_AVX512)
constexpr int kCrossRows = 8, kCrossVectors = 3;  // a tile of sums: so many features, and so many vectors of values
#elif defined(SKETCHLEARN_AVX2)
constexpr int kCrossRows = 4, kCrossVectors = 3;
#else
constexpr int kCrossRows = 4, kCrossVectors = 4;
#endif
constexpr int kCrossColumns = kCrossVectors * kDoubles;
static_assert(kCrossBlock <= 1 << 20, "sums of products up to 2^30 stay within 2^51 of their start");

// z = (x - center) factor, the last bit of each that is not zero set, so that no product is half-way between integers.
template <class T, int64_t Step>
inline bool odd_values(const T* x, int64_t step, const CrossValues& given, double* out) {
  uint64_t inside = ~uint64_t{0};
  for (int64_t k = 0; k < given.width; k++) {
    const double v = static_cast<double>(x[k * (Step ? Step : step)]) - given.center[k], z = v * given.factor[k];
    inside &= __builtin_fabs(v) <= given.bound[k] ? ~uint64_t{0} : 0;  // words, which become vectors as the values do
    uint64_t word;
    __builtin_memcpy(&word, &z, sizeof word);
    word |= z == 0.0 ? 0 : 1;
    __builtin_memcpy(&out[k], &word, sizeof word);
  }
  for (int64_t k = given.width; k < kCrossColumns; k++) out[k] = 0.0;
  return inside;
}

template <class T>
inline int64_t odd_panel(const CrossValues& given, double* panel) {
  const T* x = static_cast<const T*>(given.data);
  for (int64_t i = 0; i < given.count; i++, x += given.row_stride, panel += kCrossColumns)
    if (!(given.column_stride == 1 ? odd_values<T, 1> : odd_values<T, 0>)(x, given.column_stride, given, panel)) return i;
  return -1;
}

int64_t cross_values(const CrossValues& given, double* panel) {
  return given.is_double ? odd_panel<double>(given, panel) : odd_panel<float>(given, panel);
}

// The sums of a[r] y[c] over `count` records, of one tile, from 1.5 * 2^52 on; a and y are panels, record by record.
SKETCHLEARN_HOT void cross_tile(const double* a, const double* y, int64_t count, uint64_t (*tile)[kCrossColumns]) {
  if (count < 1) __builtin_unreachable();  // or the compiler saves all sums around an empty loop
  Doubles sum[kCrossRows][kCrossVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kCrossRows; r++)
#pragma GCC unroll 4
    for (int v = 0; v < kCrossVectors; v++) sum[r][v] = kMomentRound - Doubles{};
  for (int64_t i = 0; i < count; i++, a += kCrossRows, y += kCrossColumns) {
    Doubles columns[kCrossVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kCrossVectors; v++) columns[v] = load_doubles(y + v * kDoubles);
#if defined(SKETCHLEARN_NEON)
#pragma GCC unroll 2
    for (int r = 0; r < kCrossRows; r += 2) {
      const float64x2_t pair = vld1q_f64(a + r);
#pragma GCC unroll 4
      for (int v = 0; v < kCrossVectors; v++) sum[r][v] = vfmaq_laneq_f64(sum[r][v], columns[v], pair, 0);
#pragma GCC unroll 4
      for (int v = 0; v < kCrossVectors; v++) sum[r + 1][v] = vfmaq_laneq_f64(sum[r + 1][v], columns[v], pair, 1);
    }
#else
#pragma GCC unroll 8
    for (int r = 0; r < kCrossRows; r++)
#pragma GCC unroll 4
      for (int v = 0; v < kCrossVectors; v++) sum[r][v] = fused(columns[v], a[r] - Doubles{}, sum[r][v]);
#endif
  }
#pragma GCC unroll 8
  for (int r = 0; r < kCrossRows; r++)
#pragma GCC unroll 4
    for (int v = 0; v < kCrossVectors; v++) store_bits(tile[r] + v * kDoubles, sum[r][v]);
}

// The same of one tile, each record times its weight.
inline void weighted_cross_tile(const double* a, const double* y, int64_t count, const int64_t* weights,
                                int64_t (*tile)[kCrossColumns]) {
  __builtin_memset(tile, 0, sizeof(int64_t) * kCrossRows * kCrossColumns);
  for (int64_t i = 0; i < count; i++, a += kCrossRows, y += kCrossColumns)
    for (int r = 0; r < kCrossRows; r++)
      for (int c = 0; c < kCrossColumns; c++) {
        const double rounded = __builtin_fma(a[r], y[c], kMomentRound);
        int64_t integer;
        __builtin_memcpy(&integer, &rounded, sizeof integer);
        tile[r][c] += weights[i] * (integer - kMomentBias);
      }
}

void cross(const CrossBlock& block, int64_t* sums) {
  for (int64_t r = 0; r < block.n_rows; r += kCrossRows) {
    const double* a = block.features + r * block.count;
    int64_t tile[kCrossRows][kCrossColumns];
    if (block.weights) {
      weighted_cross_tile(a, block.values, block.count, block.weights, tile);
    } else {
      uint64_t bits[kCrossRows][kCrossColumns];
      cross_tile(a, block.values, block.count, bits);
      for (int i = 0; i < kCrossRows; i++)
        for (int c = 0; c < kCrossColumns; c++) tile[i][c] = static_cast<int64_t>(bits[i][c]) - kMomentBias;
    }
    for (int64_t i = r; i < r + kCrossRows && i < block.n_rows; i++)
      for (int64_t c = 0; c < block.n_columns; c++) sums[i * block.stride + c] += tile[i - r][c];
  }
}
