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

template <class T>
SKETCHLEARN_HOT int64_t odd_panels(const OddValues& given, double* panels) {
  const T* x = static_cast<const T*>(given.data);
  const int64_t whole = given.column_stride == 1 ? given.width - given.width % kCrossColumns : 0;
  for (int64_t i = 0; i < given.count; i++, x += given.row_stride) {
    Truths truths = Truths{} - 1;
    double* out = panels + i * kCrossColumns;
    int64_t k = 0;
    for (; k < whole; k += kCrossColumns, out += given.count * kCrossColumns)
#pragma GCC unroll 4
      for (int v = 0; v < kCrossColumns; v += kDoubles)
        truths &= odd_vector(x + k + v, given.center + k + v, given.bound + k + v, given.factor + k + v, out + v);
    for (; k < given.width; k += kCrossColumns, out += given.count * kCrossColumns)
      for (int v = 0; v < kCrossColumns; v += kDoubles) truths &= odd_rest(x, given, k + v, out + v);
    if (!all_true(truths)) return i;
  }
  return -1;
}

int64_t cross_values(const OddValues& given, double* panels) {
  return given.is_double ? odd_panels<double>(given, panels) : odd_panels<float>(given, panels);
}

// Adds the sums of a[r] y[c] over `count` records to one tile of `sums`; a and y are panels, record by record.
SKETCHLEARN_HOT void cross_tile(const double* a, const double* y, int64_t count, int64_t* sums) {
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
    for (int v = 0; v < kCrossVectors; v++, sums += kDoubles) {
      Words before;
      __builtin_memcpy(&before, sums, sizeof before);
      before += (Words)sum[r][v] - static_cast<uint64_t>(kMomentBias);
      __builtin_memcpy(sums, &before, sizeof before);
    }
}

// The same, each record times its weight.
void weighted_cross_tile(const double* a, const double* y, int64_t count, const int64_t* weights, int64_t* sums) {
  for (int64_t i = 0; i < count; i++, a += kCrossRows, y += kCrossColumns)
    for (int r = 0; r < kCrossRows; r++)
      for (int c = 0; c < kCrossColumns; c++) {
        const double rounded = __builtin_fma(a[r], y[c], kMomentRound);
        int64_t integer;
        __builtin_memcpy(&integer, &rounded, sizeof integer);
        sums[r * kCrossColumns + c] += weights[i] * (integer - kMomentBias);
      }
}

void cross(const CrossBlock& block, int64_t* sums) {
  for (int64_t r = 0; r < block.n_rows; r += kCrossRows) {
    const double* a = block.features + r * block.count;
    if (block.weights)
      weighted_cross_tile(a, block.values, block.count, block.weights, sums + r * kCrossColumns);
    else
      cross_tile(a, block.values, block.count, sums + r * kCrossColumns);
  }
}
