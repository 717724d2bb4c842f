// What the waves are computed with. The coefficients are minimax in v = u^2 for sin(pi u) / u and cos(pi u), |u| <= 1/2, both
// times 2^10.5, so that their products are in fixed point already. A whole feature is within 2^-19 of the truth
// (tests/native/exhaustive.py).

// Adding 1.5 * 2^23 to a float below 2^22 rounds it to an integer, which then stands in the low bits of the sum: kRound.
constexpr float kRound = 12582912.0f;
constexpr uint32_t kRoundBits = 0x4b400000u;
constexpr float kUnit = 1048576.0f;  // 2^20, the fixed point of one feature

constexpr float kSine4 = 112.68334f, kCosine4 = 318.44711f;
// The numbers that products are added to.
enum Addend { kSine0, kSine1, kSine2, kSine3, kCosine0, kCosine1, kCosine2, kCosine3, kZero, kOne, kAddends };
constexpr float addend(int i) {
  const float numbers[kAddends] = {4549.512f, -7483.647f, 3692.9429f, -866.5708f,
                                   1448.1547f, -7146.3457f, 5877.2407f, -1928.9376f, kRound, kRound + kUnit};
  return numbers[i];
}
