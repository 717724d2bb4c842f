// Products of float64 that are rounded to integers by the sum they are added to. A block has a square of them, a thread 4 x 4.
constexpr int kSide = 64, kOwnSide = 4, kRowsHeld = 8, kProductThreads = 256;
constexpr double kStart = 6755399441055744.0;  // 1.5 * 2^52: from here on, float64 holds integers alone

DEVICE int64_t integer_of(double sum) { return (int64_t)(__double_as_longlong(sum) - __double_as_longlong(kStart)); }

// Odd, so that no product lies half way between integers.
DEVICE double odd(double z) { return __longlong_as_double(__double_as_longlong(z) | (z == 0.0 ? 0 : 1)); }
