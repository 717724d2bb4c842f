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

// Where t is at most `most` in size.
inline Truths within(Doubles t, Doubles most) {
#if defined(SKETCHLEARN_NEON)
  return (Truths)vcaleq_f64((float64x2_t)t, (float64x2_t)most);
#else
  return (Truths)(size_of(t) <= most);
#endif
}

// The nearest integers of numbers below 2^51.
inline Words integers(Doubles t) {
#if defined(SKETCHLEARN_AVX512)
  return (Words)_mm512_maskz_cvtpd_epi64(0xff, (__m512d)t);
#elif defined(SKETCHLEARN_NEON)
  return (Words)vcvtnq_s64_f64((float64x2_t)t);
#else
  return (Words)(t + kMomentRound) - (uint64_t)kMomentBias;
#endif
}
inline void add_integers(int64_t* sums, Words t) {
  Words before;
  __builtin_memcpy(&before, sums, sizeof before);
  before += t;
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
#pragma GCC unroll 2
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
  const double *center = rows.center, *bound = rows.bound, *factor = rows.factor;
  each_vector(x, rows, out, [&](Doubles value, int64_t k) {
    const Doubles away = value - load_doubles(center + k);
    store(out + k, nearest(away * load_doubles(factor + k)));
    near &= within(away, load_doubles(bound + k));
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
    finite &= within(size, __DBL_MAX__ - Doubles{});
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
    square = add_product(v, v, square);
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

constexpr double kWholeStep = kMomentScale / kWholeUnit, kWholeSquareStep = kMomentScale / (kWholeUnit * kWholeUnit);
constexpr double kSmallStep = 0x1p-6;  // of values whose squares are averaged
inline int64_t mean_square(double sum, int64_t d) { return moment_of(sum * (0.25 / (double)d)); }  // in steps of 2^-30

// Adds the squares and values of N rows, in steps of 2^-30, to the sums of their cell: of whole vectors. Returns how many
// columns those were.
template <bool ByColumn, int N>
SKETCHLEARN_HOT int64_t add_whole_values(const double* const* rows, int64_t d, int64_t* __restrict squares,
                                         int64_t* __restrict totals, double* small_squares) {
  const double* own[N];
  Doubles square[N];
#pragma GCC unroll 4
  for (int r = 0; r < N; r++) own[r] = rows[r], square[r] = Doubles{};
  int64_t k = 0;
  for (; k + kDoubles <= d; k += kDoubles) {
    Doubles sum{};
    Words whole{};
#pragma GCC unroll 4
    for (int r = 0; r < N; r++) {
      const Doubles v = load_doubles(own[r] + k);
      sum = r ? sum + v : v;
      if constexpr (ByColumn) {
        const Words rounded = integers(v * v * kWholeSquareStep);
        whole = r ? whole + rounded : rounded;
      } else {
        const Doubles small = nearest(v * kSmallStep);
        square[r] = add_product(small, small, square[r]);
      }
    }
    add_integers(totals + k, integers(sum * kWholeStep));
    if constexpr (ByColumn) add_integers(squares + k, whole);
  }
#pragma GCC unroll 4
  for (int r = 0; r < N; r++) {
    small_squares[r] = 0.0;
    for (int i = 0; i < kDoubles; i++) small_squares[r] += square[r][i];
  }
  return k;
}

// Adds what is left of a row, one by one, and its count.
template <bool ByColumn>
inline void add_whole_rest(const double* row, int64_t k, int64_t d, double small_square, int64_t w, int64_t* sums) {
  int64_t *squares = sums + 1, *totals = sums + (ByColumn ? 1 + d : 2);
  for (; k < d; k++) {
    const double v = row[k], small = __builtin_rint(v * kSmallStep);
    totals[k] += w * moment_of(v * kWholeStep);
    if constexpr (ByColumn) squares[k] += w * moment_of(v * v * kWholeSquareStep);
    small_square += small * small;
  }
  if constexpr (!ByColumn) squares[0] += w * mean_square(small_square, d);
  sums[0] += w * (int64_t)kMomentScale;
}

template <bool ByColumn>
void add_rows_of_cell(const double* values, int64_t stride, const int32_t* rows, int64_t count, int64_t d, const int64_t* weights,
                      int64_t* sums) {
  int64_t *squares = sums + 1, *totals = sums + (ByColumn ? 1 + d : 2);
  for (int64_t i = 0; weights && i < count; i++)
    add_whole_rest<ByColumn>(values + rows[i] * stride, 0, d, 0.0, weights[rows[i]], sums);
  for (int64_t first = 0; !weights && first < count; first += 4) {
    const int64_t n = count - first < 4 ? count - first : 4;
    const auto run = n == 1 ? add_whole_values<ByColumn, 1> : n == 2 ? add_whole_values<ByColumn, 2>
                   : n == 3 ? add_whole_values<ByColumn, 3> : add_whole_values<ByColumn, 4>;
    const double* own[4];
    double small_squares[4];
    for (int64_t r = 0; r < n; r++) own[r] = values + rows[first + r] * stride;
    const int64_t done = run(own, d, squares, totals, small_squares);
    for (int64_t r = 0; r < n; r++) add_whole_rest<ByColumn>(own[r], done, d, small_squares[r], 1, sums);
  }
}

void add_whole_rows(const double* values, int64_t stride, const int32_t* rows, int64_t count, int64_t d, bool by_column,
                    const int64_t* weights, int64_t* sums) {
  (by_column ? add_rows_of_cell<true> : add_rows_of_cell<false>)(values, stride, rows, count, d, weights, sums);
}
