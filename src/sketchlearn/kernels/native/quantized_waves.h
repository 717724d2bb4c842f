// Waves of b bits: the integers of another wave, rounded to the middles of 2^b equal steps from -2^20 to 2^20.
//
// Included after waves.h. The one coefficient that comes with such a wave is b, 2 to 8.

// Of an integer x offset by kRoundBits: 2 n + 1 - 2^b, n the number of its step; 2^20 itself belongs to the last one.
inline Bits odd_level(Bits x, int n_bits) {
  return each([n_bits](BitVector v) {
    const BitVector above = v - (kRoundBits - (1u << 20)), within = above - (above >> 21);
    return ((within >> (20 - n_bits)) | 1u) - (1u << n_bits);
  }, x);
}

template <class W>
struct Quantized : W {
  static constexpr uint32_t bias = 0;
  static inline Floats reduced(Floats t, Floats dither) { return from_nearest(t + dither); }
  static inline void eval(Floats u, const Addends& k, const Coefficients& given, Bits& re, Bits& im) {
    const int n_bits = (int)given.values[0];
    W::eval(u, k, given, re, im);
    re = odd_level(re, n_bits);
    if (W::parts == 2) im = odd_level(im, n_bits);
  }
};
