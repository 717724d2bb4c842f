// One lane of a GPU, behind the functions that simd.h has for packs of lanes. Included inside a namespace, before waves.h.
//
// Every operation is an intrinsic with its rounding said: a plain product and sum could be fused on the way to the machine.
// SKETCHLEARN_NEAR: phases are below 2^20 turns, so that one addition rounds them, at the speed of an addition; conversions
// run at an eighth of it.
constexpr int kPack = 1;

struct Floats {
  float v;
};
struct Bits {
  uint32_t v;
};
struct Addends {
  DEVICE Floats operator[](Addend i) const { return {addend(i)}; }
};

DEVICE Floats pack(float x) { return {x}; }
DEVICE void store(int32_t* p, Bits b) { *p = (int32_t)b.v; }

DEVICE Floats operator+(Floats x, Floats y) { return {__fadd_rn(x.v, y.v)}; }
DEVICE Floats operator-(Floats x, Floats y) { return {__fadd_rn(x.v, -y.v)}; }
DEVICE Floats operator*(Floats x, Floats y) { return {__fmul_rn(x.v, y.v)}; }
DEVICE Floats operator*(Floats x, float y) { return {__fmul_rn(x.v, y)}; }
DEVICE Floats operator-(Floats x) { return {-x.v}; }
DEVICE Floats fma(Floats x, Floats y, Floats z) { return {__fmaf_rn(x.v, y.v, z.v)}; }
DEVICE Floats subtract_product(Floats x, Floats y, Floats z) { return {__fmaf_rn(-x.v, y.v, z.v)}; }
DEVICE Floats absolute(Floats t) { return {__uint_as_float(__float_as_uint(t.v) & 0x7fffffffu)}; }
DEVICE Floats with_sign_of(Floats size, Floats sign) {
  return {__uint_as_float(__float_as_uint(size.v) | (__float_as_uint(sign.v) & 0x80000000u))};
}
DEVICE Floats choose_if_below(Floats t, float x, float below, float otherwise) { return {t.v < x ? below : otherwise}; }
DEVICE Bits bits(Floats t) { return {__float_as_uint(t.v)}; }

#if defined(SKETCHLEARN_NEAR)
DEVICE Floats nearest(Floats t) { return {__fadd_rn(__fadd_rn(t.v, kRound), -kRound)}; }
DEVICE Bits quadrant(Floats t) { return {__float_as_uint(__fadd_rd(t.v, kRound))}; }
#else
DEVICE Floats nearest(Floats t) { return {rintf(t.v)}; }
DEVICE Bits quadrant(Floats t) {
  const float whole = floorf(t.v);  // beyond 2^30 every float is a multiple of 4
  return {fabsf(whole) < 1073741824.0f ? (uint32_t)(int32_t)whole : 0u};
}
#endif
DEVICE Floats from_nearest(Floats t) { return t - nearest(t); }

DEVICE Bits operator+(Bits x, Bits y) { return {x.v + y.v}; }
DEVICE Bits operator+(Bits x, uint32_t y) { return {x.v + y}; }
DEVICE Bits operator-(Bits x, uint32_t y) { return {x.v - y}; }
DEVICE Bits operator-(uint32_t x, Bits y) { return {x - y.v}; }
DEVICE Bits operator*(Bits x, uint32_t y) { return {x.v * y}; }
DEVICE Bits operator&(Bits x, uint32_t y) { return {x.v & y}; }
DEVICE Bits operator<<(Bits x, int y) { return {x.v << y}; }
DEVICE Bits operator>>(Bits x, int y) { return {x.v >> y}; }
typedef uint32_t BitVector;  // of which there is one
template <class Function>
DEVICE Bits each(const Function& function, Bits x) {
  return {function(x.v)};
}
DEVICE Bits spread_sign(Bits x) { return {(uint32_t)((int32_t)x.v >> 31)}; }
