// One vector type per instruction set, and packs of them, behind the same few functions.
//
// Included by exactly one translation unit per instruction set, inside its anonymous namespace, so that no code
// compiled for a wider machine can be linked into a narrower path. Every function is one IEEE operation per lane:
// docs/reference/arithmetic.md rests on that.
#if defined(SKETCHLEARN_AVX512)
constexpr int kLanes = 16, kTileRows = 12, kTileVectors = 2;
#elif defined(SKETCHLEARN_AVX2)
constexpr int kLanes = 8, kTileRows = 6, kTileVectors = 2;
#elif defined(SKETCHLEARN_NEON)
constexpr int kLanes = 4, kTileRows = 4, kTileVectors = 4;
#else
constexpr int kLanes = 4, kTileRows = 4, kTileVectors = 2;
#endif

// A hot loop: a function of its own with all that it calls inside, whose code does not depend on what else is compiled
// beside it. tests/native/hot_loops.py reads what the compiler makes of it.
#if defined(__clang__)
#define SKETCHLEARN_HOT __attribute__((noinline, flatten))
#else
#define SKETCHLEARN_HOT __attribute__((noipa, flatten))
#endif

typedef float Vector __attribute__((vector_size(4 * kLanes)));
typedef uint32_t BitVector __attribute__((vector_size(4 * kLanes)));
typedef int32_t IntVector __attribute__((vector_size(4 * kLanes)));

inline Vector load(const float* p) {
  Vector v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
inline void store(float* p, Vector v) { __builtin_memcpy(p, &v, sizeof v); }
inline void store(int32_t* p, BitVector v) { __builtin_memcpy(p, &v, sizeof v); }
inline Vector all(float x) { return x - Vector{}; }

// fma: a b + c in one rounding. subtract_product: c - a b in one rounding. nearest: to the nearest integer, ties to even.
// from_nearest: t - nearest(t), which is exact.
// quadrant: a number whose two low bits are floor(t) mod 4, for every finite t.
#if defined(SKETCHLEARN_AVX512)
// The masked forms, all lanes on: the plain ones make GCC 12 warn of its own undefined source operand.
inline Vector fma(Vector a, Vector b, Vector c) { return (Vector)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
inline Vector subtract_product(Vector a, Vector b, Vector c) { return (Vector)_mm512_fnmadd_ps((__m512)a, (__m512)b, (__m512)c); }
inline Vector nearest(Vector t) { return (Vector)_mm512_maskz_roundscale_ps(0xffff, (__m512)t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline Vector from_nearest(Vector t) { return (Vector)_mm512_maskz_reduce_ps(0xffff, (__m512)t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline BitVector quadrant(Vector t) { return (BitVector)_mm512_maskz_cvt_roundps_epi32(0xffff, (__m512)t, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
inline BitVector choose_of_four(BitVector q, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  const __m512i table = _mm512_set4_epi32((int)d, (int)c, (int)b, (int)a);
  return (BitVector)_mm512_maskz_permutevar_ps(0xffff, (__m512)table, (__m512i)q);
}
#elif defined(SKETCHLEARN_AVX2)
inline Vector fma(Vector a, Vector b, Vector c) { return (Vector)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
inline Vector subtract_product(Vector a, Vector b, Vector c) { return (Vector)_mm256_fnmadd_ps((__m256)a, (__m256)b, (__m256)c); }
inline Vector nearest(Vector t) { return (Vector)_mm256_round_ps((__m256)t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline BitVector quadrant(Vector t) { return (BitVector)_mm256_cvttps_epi32(_mm256_floor_ps((__m256)t)); }
inline BitVector choose_of_four(BitVector q, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  const __m256i table = _mm256_set_epi32((int)d, (int)c, (int)b, (int)a, (int)d, (int)c, (int)b, (int)a);
  return (BitVector)_mm256_permutevar_ps((__m256)table, (__m256i)q);
}
#elif defined(SKETCHLEARN_NEON)
inline Vector fma(Vector a, Vector b, Vector c) { return (Vector)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b); }
inline Vector subtract_product(Vector a, Vector b, Vector c) { return (Vector)vfmsq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b); }
inline Vector nearest(Vector t) { return (Vector)vrndnq_f32((float32x4_t)t); }
// Beyond 2^30 every float is a multiple of 4, and the conversion would saturate to an odd number.
inline BitVector quadrant(Vector t) { return (BitVector)vcvtmq_s32_f32(vminnmq_f32((float32x4_t)t, vdupq_n_f32(1073741824.0f))); }
#else
inline Vector fma(Vector a, Vector b, Vector c) {
  Vector r{};
  for (int i = 0; i < kLanes; i++) r[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return r;
}
inline Vector subtract_product(Vector a, Vector b, Vector c) { return fma(-a, b, c); }
inline Vector nearest(Vector t) {
  Vector r{};
  for (int i = 0; i < kLanes; i++) r[i] = __builtin_rintf(t[i]);
  return r;
}
inline BitVector quadrant(Vector t) {
  BitVector r{};
  for (int i = 0; i < kLanes; i++) {
    const float f = __builtin_floorf(t[i]);
    r[i] = __builtin_fabsf(f) < 1073741824.0f ? (uint32_t)(int32_t)f : 0u;
  }
  return r;
}
#endif

#if !defined(SKETCHLEARN_AVX512)
inline Vector from_nearest(Vector t) { return t - nearest(t); }
#endif

// The vector whose lane i is lane i ^ H of v: the partner of a Hadamard butterfly inside one vector.
template <int H>
inline Vector partner(Vector v) {
#if defined(__clang__)
  Vector r{};
  for (int i = 0; i < kLanes; i++) r[i] = v[i ^ H];
  return r;
#else
  IntVector order{};
  for (int i = 0; i < kLanes; i++) order[i] = i ^ H;
  return __builtin_shuffle(v, order);
#endif
}

// Packs: kChains vectors that go through a wave in step, so that each hides the latency of the others.
// Members with names, not an array, so that the compiler keeps them in registers.
#if defined(SKETCHLEARN_NEON)
constexpr int kChains = 4;
template <class V>
struct Pack {
  V a, b, c, d;
};
template <class F, class... P>
inline auto each(F f, const P&... p) -> Pack<decltype(f(p.a...))> {
  return {f(p.a...), f(p.b...), f(p.c...), f(p.d...)};
}
#else
constexpr int kChains = 2;
template <class V>
struct Pack {
  V a, b;
};
template <class F, class... P>
inline auto each(F f, const P&... p) -> Pack<decltype(f(p.a...))> {
  return {f(p.a...), f(p.b...)};
}
#endif
using Floats = Pack<Vector>;
using Bits = Pack<BitVector>;
constexpr int kPack = kChains * kLanes;

inline Floats pack(float x) {
  return each([x](Vector v) { return x - v; }, Floats{});
}
inline Floats load_pack(const float* p) {
  return each([&p](Vector) { p += kLanes; return load(p - kLanes); }, Floats{});
}
inline void store(float* p, Floats x) {
  each([&p](Vector v) { store(p, v); p += kLanes; return 0; }, x);
}
inline void store(int32_t* p, Bits b) {
  each([&p](BitVector v) { store(p, v); p += kLanes; return 0; }, b);
}

inline Floats operator+(Floats x, Floats y) { return each([](Vector a, Vector b) { return a + b; }, x, y); }
inline Floats operator-(Floats x, Floats y) { return each([](Vector a, Vector b) { return a - b; }, x, y); }
inline Floats operator*(Floats x, Floats y) { return each([](Vector a, Vector b) { return a * b; }, x, y); }
inline Floats operator*(Floats x, float y) { return each([y](Vector a) { return a * y; }, x); }
inline Floats operator-(Floats x) { return each([](Vector a) { return -a; }, x); }
inline Floats fma(Floats x, Floats y, Floats z) {
  return each([](Vector a, Vector b, Vector c) { return fma(a, b, c); }, x, y, z);
}
inline Floats subtract_product(Floats x, Floats y, Floats z) {
  return each([](Vector a, Vector b, Vector c) { return subtract_product(a, b, c); }, x, y, z);
}
inline Floats nearest(Floats t) { return each([](Vector a) { return nearest(a); }, t); }
inline Floats from_nearest(Floats t) { return each([](Vector a) { return from_nearest(a); }, t); }
inline Floats absolute(Floats t) { return each([](Vector a) { return (Vector)((BitVector)a & 0x7fffffffu); }, t); }
inline Floats with_sign_of(Floats size, Floats sign) {
  return each([](Vector a, Vector b) { return (Vector)((BitVector)a | ((BitVector)b & 0x80000000u)); }, size, sign);
}
inline Floats choose_if_below(Floats t, float x, float below, float otherwise) {
  return each([=](Vector a) { return a < x ? all(below) : all(otherwise); }, t);
}
inline Bits bits(Floats t) { return each([](Vector a) { return (BitVector)a; }, t); }
inline Bits quadrant(Floats t) { return each([](Vector a) { return quadrant(a); }, t); }
inline Bits operator+(Bits x, Bits y) { return each([](BitVector a, BitVector b) { return a + b; }, x, y); }
inline Bits operator+(Bits x, uint32_t y) { return each([y](BitVector a) { return a + y; }, x); }
inline Bits operator-(Bits x, uint32_t y) { return each([y](BitVector a) { return a - y; }, x); }
inline Bits operator-(uint32_t x, Bits y) { return each([x](BitVector a) { return x - a; }, y); }
inline Bits operator*(Bits x, uint32_t y) { return each([y](BitVector a) { return a * y; }, x); }
inline Bits operator&(Bits x, uint32_t y) { return each([y](BitVector a) { return a & y; }, x); }
inline Bits operator<<(Bits x, int y) { return each([y](BitVector a) { return a << y; }, x); }
inline Bits operator>>(Bits x, int y) { return each([y](BitVector a) { return a >> y; }, x); }
inline Bits spread_sign(Bits x) { return each([](BitVector a) { return (BitVector)((IntVector)a >> 31); }, x); }
