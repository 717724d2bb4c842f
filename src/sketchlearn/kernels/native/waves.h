// The periodic functions: a phase t, in turns, becomes one or two integers (the parts of one feature).
//
// Included after simd.h and addends.h, or after gpu/lane.h: a GPU compiles the same source. Each wave has `reduced`, which
// adds the dither (times `unit`, if it takes one) and leaves out whole turns, `eval`, which gives the parts of what `reduced`
// gave, as integers offset by `bias` (the sum of n of them is n * bias too high, modulo 2^32), and `parts`, 1 for real waves
// and 2 for complex ones.
inline Floats half_sine(Floats u, const Addends& k) {
  const Floats v = u * u;
  Floats p = fma(pack(kSine4), v, k[kSine3]);
  p = fma(p, v, k[kSine2]);
  p = fma(p, v, k[kSine1]);
  p = fma(p, v, k[kSine0]);
  return p * u;
}
struct HalfWave {
  Floats sine, cosine;
};
inline HalfWave half_wave(Floats u, const Addends& k) {  // in step, so that each hides the latency of the other
  const Floats v = u * u;
  Floats p = fma(pack(kSine4), v, k[kSine3]), q = fma(pack(kCosine4), v, k[kCosine3]);
  p = fma(p, v, k[kSine2]), q = fma(q, v, k[kCosine2]);
  p = fma(p, v, k[kSine1]), q = fma(q, v, k[kCosine1]);
  p = fma(p, v, k[kSine0]), q = fma(q, v, k[kCosine0]);
  return {p * u, q};
}

// What most waves share: a dither, a fixed point by kRound, one or two parts.
template <int Parts>
struct Dithered {
  static constexpr int parts = Parts;
  static constexpr float unit = 1.0f;
  static constexpr uint32_t bias = kRoundBits;
  static inline Floats reduced(Floats t, Floats dither) { return from_nearest(t + dither); }
};

template <int Parts>
struct Exponential : Dithered<Parts> {
  static inline Floats reduced(Floats t, Floats dither) { return from_nearest(Parts == 1 ? t + dither : t); }
  static inline void eval(Floats u, const Addends& k, const Coefficients&, Bits& re, Bits& im) {
    const HalfWave half = Parts == 2 ? half_wave(u, k) : HalfWave{half_sine(u, k), {}};
    re = bits(subtract_product(half.sine, half.sine, k[kOne]));  // cos = 1 - 2 sin^2 of half the angle
    if (Parts == 2) im = bits(fma(half.sine, half.cosine, k[kZero]));
  }
};

// Sign of cos (and of sin): +1 where floor(4 t) mod 4 is 0 or 3 (0 or 1), else -1. Half-open, so exactly periodic.
template <int Parts>
struct Square : Dithered<Parts> {
  static constexpr float unit = 4.0f;
  static constexpr uint32_t bias = 0;
  static inline Floats reduced(Floats t, Floats dither) { return fma(t, pack(4.0f), dither); }  // 4 (t + dither)
  static inline void eval(Floats quarters, const Addends&, const Coefficients&, Bits& re, Bits& im) {
    const Bits q = quadrant(quarters);
    re = 1u - ((q + 1u) & 2u);
    im = 1u - (q & 2u);
  }
};

// 2u, and the same a quarter turn later, u being t's distance from the nearest integer: -1 at the jump, so exactly periodic.
template <int Parts>
struct Sawtooth : Dithered<Parts> {
  static inline void eval(Floats near, const Addends& k, const Coefficients&, Bits& re, Bits& im) {
    const Floats u = near + choose_if_below(near, 0.5f, 0.0f, -1.0f);
    re = bits(fma(u, pack(2.0f * kUnit), k[kZero]));
    const Floats later = u + choose_if_below(u, -0.25f, 0.75f, -0.25f);
    if (Parts == 2) im = bits(fma(later, pack(2.0f * kUnit), k[kZero]));
  }
};

// 1 - 4|u|, and the same a quarter turn later: the piecewise linear cosine and sine.
template <int Parts>
struct Triangle : Dithered<Parts> {
  static inline void eval(Floats u, const Addends& k, const Coefficients&, Bits& re, Bits& im) {
    const Floats w = absolute(u), quarter = pack(0.25f);
    re = bits(subtract_product(w, pack(4.0f * kUnit), k[kOne]));
    const Floats sine = with_sign_of(quarter - absolute(w - quarter), u);
    if (Parts == 2) im = bits(fma(sine, pack(4.0f * kUnit), k[kZero]));
  }
};

// sum_h a_h cos(2 pi h t) + b_h sin(2 pi h t), and the same a quarter turn later. The coefficients come times 2^20, with
// those of the second part after those of the first. h u is reduced exactly before its sine is taken.
template <int Parts>
struct Series : Dithered<Parts> {
  static inline void eval(Floats u, const Addends& k, const Coefficients& given, Bits& re, Bits& im) {
    Floats first = pack(0.0f), second = pack(0.0f);
    for (int64_t h = 0; h < given.harmonics; h++) {
      const Floats order = pack((float)(h + 1));
      const HalfWave half = half_wave(fma(order, u, -nearest(order * u)), k);
      const Floats s = half.sine * 0x1p-10f, c = half.cosine * 0x1p-10f;  // times sqrt(2)
      const Floats cosine = subtract_product(s, s, pack(1.0f)), sine = s * c;
      const float* a = given.values + 2 * h;
      first = fma(pack(a[0]), cosine, fma(pack(a[1]), sine, first));
      if (Parts == 2) {
        const float* b = a + 2 * given.harmonics;
        second = fma(pack(b[0]), cosine, fma(pack(b[1]), sine, second));
      }
    }
    re = bits(first + k[kZero]);
    if (Parts == 2) im = bits(second + k[kZero]);
  }
};

// t^2, for |t| <= 1: not periodic, but the same projection and the same fixed point.
struct Quadratic : Dithered<1> {
  static inline Floats reduced(Floats t, Floats) { return t; }
  static inline void eval(Floats t, const Addends& k, const Coefficients&, Bits& re, Bits&) {
    re = bits(fma(t * kUnit, t, k[kZero]));
  }
};

// Sums one pack of columns over the rows of a tile (at most 1024, so that 32 bits hold it).
template <class W>
struct Total {
  Bits re{}, im{};
  inline void add(Floats u, const Coefficients& given) {
    Bits a, b{};
    W::eval(u, Addends(), given, a, b);
    re = re + a;
    if (W::parts == 2) im = im + b;
  }
  inline void finish(int rows, int32_t (*part)[kPack]) const {
    store(part[0], re - (uint32_t)rows * W::bias);
    if (W::parts == 2) store(part[W::parts - 1], im - (uint32_t)rows * W::bias);
  }
};

#if defined(SKETCHLEARN_AVX512) || defined(SKETCHLEARN_AVX2)
// A table look-up per record adds both negative counts at once, in the two halves of one integer.
template <int Parts>
struct Total<Square<Parts>> {
  Bits count{};
  inline void add(Floats quarters, const Coefficients&) {
    count = count + each([](BitVector q) { return choose_of_four(q, 0u, 1u, 0x10001u, 0x10000u); }, quadrant(quarters));
  }
  inline void finish(int rows, int32_t (*part)[kPack]) const {
    store(part[0], (uint32_t)rows - (count & 0xffffu) * 2u);
    if (Parts == 2) store(part[Parts - 1], (uint32_t)rows - (count >> 16) * 2u);
  }
};
#else
// Negative counts by shifting the deciding bit into the sign.
template <int Parts>
struct Total<Square<Parts>> {
  Bits re{}, im{};
  inline void add(Floats quarters, const Coefficients&) {
    const Bits q = quadrant(quarters) << 30;
    re = re + spread_sign(q + 0x40000000u);
    if (Parts == 2) im = im + spread_sign(q);
  }
  inline void finish(int rows, int32_t (*part)[kPack]) const {
    store(part[0], re * 2u + (uint32_t)rows);
    if (Parts == 2) store(part[Parts - 1], im * 2u + (uint32_t)rows);
  }
};
#endif
