// Rows in whole numbers: values, places in a few directions, and what rows add to their cell. Whole numbers and products of
// them stay below 2^53, so that float64 adds them up exactly, in any order. Included by kernel_body.h, after cells_body.h.
inline Doubles nearest(Doubles t) {
#if defined(SKETCHLEARN_AVX512)
  return (Doubles)_mm512_maskz_roundscale_pd(0xff, (__m512d)t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(SKETCHLEARN_AVX2)
  return (Doubles)_mm256_round_pd((__m256d)t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(SKETCHLEARN_NEON)
  return (Doubles)vrndnq_f64((float64x2_t)t);
#else
  for (int i = 0; i < kDoubles; i++) t[i] = __builtin_rint(t[i]);
  return t;
#endif
}
inline Doubles size_of(Doubles t) { return (Doubles)((Words)t & 0x7fffffffffffffffu); }
inline void store(double* p, Doubles v) { __builtin_memcpy(p, &v, sizeof v); }

// Adds the nearest integers of numbers below 2^51.
inline void add_nearest(int64_t* sums, Doubles t) {
  Words before;
  __builtin_memcpy(&before, sums, sizeof before);
#if defined(SKETCHLEARN_AVX512)
  before += (Words)_mm512_maskz_cvtpd_epi64(0xff, (__m512d)t);
#elif defined(SKETCHLEARN_NEON)
  before += (Words)vcvtnq_s64_f64((float64x2_t)t);
#else
  before += (Words)(t + kMomentRound) - (uint64_t)kMomentBias;
#endif
  __builtin_memcpy(sums, &before, sizeof before);
}

// Calls step(values, k) for each vector of a row; of columns that do not lie side by side, and of the last ones, by `rest`,
// which has zeros up to a multiple of kWholePadding.
template <class T, class Step>
inline void each_vector(const T* x, const WholeRows& rows, double* rest, const Step& step) {
  const int64_t d = rows.n_features, whole = rows.column_stride == 1 ? d - d % kDoubles : 0;
  int64_t k = whole;
  for (; k < d; k++) rest[k] = (double)x[k * rows.column_stride];
  for (; k % kWholePadding; k++) rest[k] = 0.0;
  const int64_t padded = k;
  for (k = 0; k < whole; k += kDoubles) step(load_wide(x + k), k);
  for (; k < padded; k += kDoubles) step(load_doubles(rest + k), k);
}

// Of a row with a value that is beyond its bound, or none: one by one.
template <class T>
int far_values(const T* x, const WholeRows& rows, double* out) {
  int odd = 0;
  for (int64_t k = 0; k < rows.n_features; k++) {
    const double value = (double)x[k * rows.column_stride], away = value - rows.center[k];
    const double v = __builtin_rint(away * rows.factor[k]);
    odd |= (__builtin_fabs(value) <= __DBL_MAX__ ? 0 : kRowBad) | (__builtin_fabs(away) > rows.bound[k] ? kRowClipped : 0) |
           (__builtin_fabs(v) > kWholeUnit ? kRowRefused : 0);
    out[k] = v < -kWholeUnit ? -kWholeUnit : v > kWholeUnit ? kWholeUnit : v;
  }
  return odd;
}

// v = round((x - center) factor), onto kWholeUnit where it is beyond.
template <class T>
SKETCHLEARN_HOT int whole_values(const T* x, const WholeRows& rows, double* out) {
  Truths near = Truths{} - 1;
  each_vector(x, rows, out, [&](Doubles value, int64_t k) {
    const Doubles away = value - load_doubles(rows.center + k);
    store(out + k, nearest(away * load_doubles(rows.factor + k)));
    near &= (Truths)(size_of(away) <= load_doubles(rows.bound + k));
  });
  return all_true(near) ? 0 : far_values(x, rows, out);
}

// v = round(2^22 x / |x|); rows of zeros stay. Values are rounded to 2^-18 of the largest power of two first, so that the sum
// of their squares is exact.
template <class T>
SKETCHLEARN_HOT int values_of_length_one(const T* x, const WholeRows& rows, double* out) {
  constexpr int kLengthBits = 18;
  Truths finite = Truths{} - 1;
  Doubles largest{}, square{};
  each_vector(x, rows, out, [&](Doubles value, int64_t) {
    const Doubles size = size_of(value);
    finite &= (Truths)(size <= __DBL_MAX__);
    largest = size > largest ? size : largest;
  });
  if (!all_true(finite)) return kRowBad;
  double most = 0.0, total = 0.0;
  for (int i = 0; i < kDoubles; i++) most = largest[i] > most ? largest[i] : most;
  int exponent = 0;
  __builtin_frexp(most, &exponent);
  const int bits = kLengthBits - exponent, half = bits / 2;
  const double first = __builtin_ldexp(1.0, half), second = __builtin_ldexp(1.0, bits - half);  // 2^bits may be out of range
  each_vector(x, rows, out, [&](Doubles value, int64_t k) {
    const Doubles v = nearest(value * first * second);
    store(out + k, v);
    square += v * v;
  });
  for (int i = 0; i < kDoubles; i++) total += square[i];
  const Doubles length = (total > 0.0 ? __builtin_sqrt(total) : 1.0) - Doubles{};
  for (int64_t k = 0; k < rows.n_features; k += kDoubles) store(out + k, nearest(load_doubles(out + k) / length * kWholeUnit));
  return 0;
}

// Bits of the result: kRowBad where a value is not finite, kRowClipped where one is beyond its bound, kRowRefused.
int read_whole_row(const WholeRows& rows, int64_t i, double* out) {
  const int64_t at = i * rows.row_stride;
  if (rows.is_double) {
    const double* x = static_cast<const double*>(rows.data) + at;
    return rows.normalize ? values_of_length_one(x, rows, out) : whole_values(x, rows, out);
  }
  const float* x = static_cast<const float*>(rows.data) + at;
  return rows.normalize ? values_of_length_one(x, rows, out) : whole_values(x, rows, out);
}

// Adds products of values and directions to places; count: whole tiles.
template <int V>
SKETCHLEARN_HOT void add_places(const double* values, int64_t count, int64_t stride, int64_t depth, const double* panel,
                                double* places, int64_t n_padded) {
  for (int64_t first = 0; first < count; first += kTileRows, values += kTileRows * stride, places += kTileRows * n_padded) {
    Doubles sum[kTileRows][V];
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; r++)
#pragma GCC unroll 8
      for (int v = 0; v < V; v++) sum[r][v] = load_doubles(places + r * n_padded + v * kDoubles);
    for (int64_t k = 0; k < depth; k += kColumnsAtOnce<double>) multiply_tile<V>(values + k, stride, panel + k * V * kDoubles, sum);
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; r++)
#pragma GCC unroll 8
      for (int v = 0; v < V; v++) store(places + r * n_padded + v * kDoubles, sum[r][v]);
  }
}

// y = round(unit D v), onto kLargestPlace where it is beyond.
void find_places(const double* values, int64_t count, int64_t stride, const PlacePanels& directions, double* places) {
  constexpr int64_t kDepth = 256;  // columns of a panel that stay in the first cache
  const int64_t n = directions.n_padded, padded = (count + kTileRows - 1) / kTileRows * kTileRows;
  for (int64_t i = 0; i < padded * n; i++) places[i] = 0.0;
  for (int64_t k = 0; k < stride; k += kDepth) {
    int64_t vectors = n / kDoubles, column = 0;
    while (vectors > 0) {
      const int64_t v = panel_vectors(vectors), depth = stride - k < kDepth ? stride - k : kDepth;
      const auto run = v == 1 ? add_places<1> : v == 2 || kTileVectors < 3 ? add_places<2> : v == 3 ? add_places<3> : add_places<4>;
      run(values + k, padded, stride, depth, directions.panels + column * stride + k * v * kDoubles, places + column, n);
      vectors -= v, column += v * kDoubles;
    }
  }
  for (int64_t i = 0; i < padded * n; i += kDoubles) {
    const Doubles y = nearest(load_doubles(places + i) * directions.unit);
    const Doubles low = y < -kLargestPlace ? -kLargestPlace - Doubles{} : y;
    store(places + i, low > kLargestPlace ? kLargestPlace - Doubles{} : low);
  }
}

// Adds a row's count, squares and values, in steps of 2^-30, to the sums of its cell.
template <bool ByColumn>
SKETCHLEARN_HOT void add_whole_values(const double* values, int64_t d, int64_t w, int64_t* __restrict sums) {
  constexpr double kStep = kMomentScale / kWholeUnit, kSquareStep = kMomentScale / (kWholeUnit * kWholeUnit), kSmall = 0x1p-6;
  int64_t *squares = sums + 1, *totals = sums + (ByColumn ? 1 + d : 2), k = 0;
  sums[0] += w * (int64_t)kMomentScale;
  Doubles square{};
  for (; w == 1 && k + kDoubles <= d; k += kDoubles) {
    const Doubles v = load_doubles(values + k);
    add_nearest(totals + k, v * kStep);
    if constexpr (ByColumn) {
      add_nearest(squares + k, v * v * kSquareStep);
    } else {
      const Doubles small = nearest(v * kSmall);
      square = multiply_add(small, small, square);
    }
  }
  double total = 0.0;
  for (int i = 0; i < kDoubles; i++) total += square[i];
  for (; k < d; k++) {
    const double v = values[k], small = __builtin_rint(v * kSmall);
    totals[k] += w * moment_of(v * kStep);
    if constexpr (ByColumn) squares[k] += w * moment_of(v * v * kSquareStep);
    total += small * small;
  }
  if constexpr (!ByColumn) squares[0] += w * moment_of(total * (0.25 / (double)d));  // of values in steps of 2^-16
}

void add_whole_row(const double* values, int64_t d, bool by_column, const int64_t* weight, int64_t* sums) {
  const int64_t w = weight ? *weight : 1;
  by_column ? add_whole_values<true>(values, d, w, sums) : add_whole_values<false>(values, d, w, sums);
}
