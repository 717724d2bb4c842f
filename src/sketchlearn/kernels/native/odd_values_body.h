// Values that products rounded once are taken of: see OddValues. Included by kernel_body.h, after moments_body.h.
typedef float HalfFloats __attribute__((vector_size(2 * kLanes)));  // as many as Doubles
typedef int64_t Truths __attribute__((vector_size(4 * kLanes)));    // all bits of a lane, or none

inline bool all_true(Truths truths) {
  int64_t all = -1;
  for (int c = 0; c < kDoubles; c++) all &= truths[c];
  return all;
}

inline Doubles load_wide(const double* x) { return load_doubles(x); }
inline Doubles load_wide(const float* x) {
#if defined(SKETCHLEARN_NEON)  // GCC 12 would load them one by one
  return (Doubles)vcvt_f64_f32(vld1_f32(x));
#elif defined(SKETCHLEARN_AVX512)  // and here convert two halves
  return (Doubles)_mm512_maskz_cvtps_pd(0xff, _mm256_loadu_ps(x));
#elif defined(SKETCHLEARN_AVX2)
  return (Doubles)_mm256_cvtps_pd(_mm_loadu_ps(x));
#else
  HalfFloats v;
  __builtin_memcpy(&v, x, sizeof v);
  return __builtin_convertvector(v, Doubles);
#endif
}

// Of values that lie side by side. Returns where they are within their bounds.
template <class T>
inline Truths odd_vector(const T* x, const double* center, const double* bound, const double* factor, double* out) {
  const Doubles v = load_wide(x) - load_doubles(center), z = v * load_doubles(factor);
  const Words word = (Words)z | ((Words)(z != 0.0) & 1);
  __builtin_memcpy(out, &word, sizeof word);
  const Doubles size = (Doubles)((Words)v & 0x7fffffffffffffffu);
  return (Truths)(size <= load_doubles(bound));
}

// Values from `from` on, a vector of them or fewer, whatever their stride, and zeros up to the vector's end. A function of
// its own, or its needs for registers would slow down the loops beside it.
template <class T>
[[gnu::noinline]] Truths odd_rest(const T* x, const OddValues& given, int64_t from, double* out) {
  double value[kDoubles]{}, center[kDoubles]{}, bound[kDoubles]{}, factor[kDoubles]{};
  for (int64_t k = 0; k < kDoubles && from + k < given.width; k++) {
    value[k] = static_cast<double>(x[(from + k) * given.column_stride]);
    center[k] = given.center[from + k], bound[k] = given.bound[from + k], factor[k] = given.factor[from + k];
  }
  return odd_vector(value, center, bound, factor, out);
}

template <class T>
SKETCHLEARN_HOT int64_t odd_rows_of(const OddValues& given, int64_t stride, double* out) {
  const T* x = static_cast<const T*>(given.data);
  const int64_t whole = given.column_stride == 1 ? given.width - given.width % kDoubles : 0;
  for (int64_t i = 0; i < given.count; i++, x += given.row_stride, out += stride) {
    Truths truths = Truths{} - 1;
    for (int64_t k = 0; k < whole; k += kDoubles)
      truths &= odd_vector(x + k, given.center + k, given.bound + k, given.factor + k, out + k);
    for (int64_t k = whole; k < given.width; k += kDoubles) truths &= odd_rest(x, given, k, out + k);
    out[given.width] = kOddUnit;
    if (!all_true(truths)) return i;
  }
  return -1;
}

int64_t odd_rows(const OddValues& given, int64_t stride, double* out) {
  return given.is_double ? odd_rows_of<double>(given, stride, out) : odd_rows_of<float>(given, stride, out);
}
