// What rows add to the expected statistics of a mixture of Gaussians. Lanes are rows, so that each row's arithmetic is one
// sequence of operations on any machine. Included by kernel_body.h, after cells_body.h.

static_assert(kBlockRows % kPack == 0, "blocks of whole packs");

inline Floats larger(Floats x, Floats y) { return each([](Vector a, Vector b) { return a > b ? a : b; }, x, y); }
inline Bits rounded(Floats whole) { return bits(whole + pack(kRound)); }

inline uint32_t lanes_total(Bits b) {
#if defined(SKETCHLEARN_NEON)
  return vaddvq_u32((uint32x4_t)(b.a + b.b + (b.c + b.d)));
#else
  const BitVector both = b.a + b.b;
  uint32_t total = 0;
  for (int i = 0; i < kLanes; i++) total += both[i];
  return total;
#endif
}

// The whitened coordinates of a pack of rows under one component: c + G v, G diagonal or a lower triangle, each a chain of
// fused multiply-adds, columns ascending.
template <bool Full>
inline Floats whitened(const float* values, const float* shift, const float* matrix, int64_t i) {
  if (!Full) return fma(load_pack(values + i * kBlockRows), pack(matrix[i]), pack(shift[i]));
  const float* row = matrix + i * (i + 1) / 2;
  Floats u = pack(shift[i]);
  for (int64_t k = 0; k <= i; k++) u = fma(load_pack(values + k * kBlockRows), pack(row[k]), u);
  return u;
}

// Of each row: the squared length of its whitened coordinates, and the logarithm of the component's weight times density.
template <bool Full>
SKETCHLEARN_HOT void log_densities(const float* values, int64_t d, const float* part, float* squares, float* logs) {
  const float *shift = part + 2, *matrix = shift + d;
  for (int64_t r = 0; r < kBlockRows; r += kPack) {
    Floats square = pack(0.0f);
    for (int64_t i = 0; i < d; i++) {
      const Floats u = whitened<Full>(values + r, shift, matrix, i);
      square = fma(u, u, square);
    }
    store(squares + r, square);
    store(logs + r, fma(square, pack(part[1]), pack(part[0])));
  }
}

// log(x) for x >= 1: of a number around 1 by 2 atanh(z), z = (x - 1) / (x + 1), and its exponent.
inline Floats logarithm(Floats x) {
  const Bits exponent = (bits(x) - 0x3f3504f3u) >> 23;  // of x over the root of 1/2
  const Floats near = each([](BitVector b, BitVector e) { return (Vector)(b - (e << 23)); }, bits(x), exponent);
  const Floats z = each([](Vector a) { return (a - 1.0f) / (a + 1.0f); }, near), square = z * z;
  Floats p = fma(pack(0.285714286f), square, pack(0.4f));
  p = fma(p, square, pack(0.666666667f));
  p = fma(p, square, pack(2.0f));
  const Floats whole = each([](BitVector e) { return __builtin_convertvector((IntVector)e, Vector); }, exponent);
  return fma(whole, pack(0.693147181f), p * z);
}

// Responsibilities in steps of 2^-22, [component][row], in the place of logarithms: they add up to one exactly, as the first
// of the likeliest components has what the others leave. `likelihoods`: the logarithms of the sums, in steps of 2^-10.
SKETCHLEARN_HOT void responsibilities(float* logs, int64_t n, float* likelihoods) {
  for (int64_t r = 0; r < kBlockRows; r += kPack, logs += kPack) {
    Floats top = load_pack(logs), total = pack(0.0f), left = pack(kShareUnit);
    for (int64_t j = 1; j < n; j++) top = larger(load_pack(logs + j * kBlockRows), top);
    Bits likeliest = bits(pack(0.0f)) - 1u;  // none so far
    for (int64_t j = 0; j < n; j++) {
      const Floats part = decay(top - load_pack(logs + j * kBlockRows));
      total = total + part;
      likeliest = each([j](Vector a, BitVector b) {
        const IntVector here = (IntVector)(a == 1.0f) & ((IntVector)b < 0);
        return ((BitVector)here & (uint32_t)j) | (~(BitVector)here & b);
      }, part, likeliest);
      store(logs + j * kBlockRows, part);
    }
    const Floats factor = each([](Vector a) { return all(kShareUnit) / a; }, total);
    store(likelihoods + r, larger((top + logarithm(total)) * kLogUnit, pack(-kShareUnit)));
    for (int64_t j = 0; j < n; j++) {
      const Floats share = nearest(load_pack(logs + j * kBlockRows) * factor);
      left = left - share;
      store(logs + j * kBlockRows, share);
    }
    float rest[kPack];
    int32_t first[kPack];
    store(rest, left);
    store(first, likeliest);
    for (int i = 0; i < kPack; i++) logs[first[i] * kBlockRows + i] += rest[i];
  }
}

// The sum over rows of integers that term(row) has in the bits above kRound's, for packs of rows; weighted if there are weights.
template <class Term>
inline int64_t total_of(int64_t count, const int64_t* weights, const Term& term) {
  if (!weights) {
    Bits sum{};
    for (int64_t r = 0; r < count; r += kPack) sum = sum + term(r);
    return (int32_t)(lanes_total(sum) - (uint32_t)count * kRoundBits);
  }
  int64_t sum = 0;
  for (int64_t r = 0; r < count; r += kPack) {
    int32_t part[kPack];
    store(part, term(r) - kRoundBits);
    for (int i = 0; i < kPack; i++) sum += weights[r + i] * part[i];
  }
  return sum;
}

// Adds what `count` rows, whole packs, add to one component: their shares, and products with whitened coordinates.
template <bool Full>
SKETCHLEARN_HOT void add_statistics(const float* shares, const float* whitened, float* product, int64_t count, int64_t d,
                                  const int64_t* weights, int64_t* sums) {
  sums[0] += total_of(count, weights, [&](int64_t r) { return rounded(load_pack(shares + r)); });
  int64_t *means = sums + 1, *squares = means + d;
  for (int64_t i = 0; i < d; i++) {
    const float* u = whitened + i * kBlockRows;
    if (!Full && !weights) {
      Bits mean{}, square{};
      for (int64_t r = 0; r < count; r += kPack) {
        const Floats v = load_pack(u + r), t = load_pack(shares + r) * v;
        mean = mean + rounded(t);
        square = square + bits(fma(t, v, pack(kRound)));
      }
      const uint32_t bias = (uint32_t)count * kRoundBits;
      means[i] += (int32_t)(lanes_total(mean) - bias), squares[i] += (int32_t)(lanes_total(square) - bias);
      continue;
    }
    for (int64_t r = 0; r < count; r += kPack) store(product + r, load_pack(shares + r) * load_pack(u + r));
    means[i] += total_of(count, weights, [&](int64_t r) { return rounded(load_pack(product + r)); });
    for (int64_t k = Full ? 0 : i; k <= i; k++) {
      const float* other = whitened + k * kBlockRows;
      squares[Full ? i * (i + 1) / 2 + k : i] += total_of(count, weights, [&](int64_t r) {
        return bits(fma(load_pack(product + r), load_pack(other + r), pack(kRound)));
      });
    }
  }
}

// Rows that count in a component are gathered where they are fewer than one in so many.
template <bool Full>
inline void expect_block(const float* values, int64_t count, const GaussianParts& parts, const int64_t* weights, float* space,
                         uint8_t* odd, int64_t* sums) {
  constexpr double kGather = Full ? 1.4 : 2.5;
  const int64_t d = parts.n_features, n = parts.count, width = 2 + d + parts.squares();
  float *squares = space, *shares = squares + n * kBlockRows, *some = shares + n * kBlockRows, *u = some + d * kBlockRows;
  float *own = u + d * kBlockRows, *product = own + kBlockRows, *shrink = product + kBlockRows, *likelihood = shrink + kBlockRows;
  for (int64_t j = 0; j < n; j++)
    log_densities<Full>(values, d, parts.numbers + j * width, squares + j * kBlockRows, shares + j * kBlockRows);
  responsibilities(shares, n, likelihood);
  for (int64_t r = 0; r < count; r++) sums[0] += (weights ? weights[r] : 1) * (int64_t)__builtin_rintf(likelihood[r]);
  sums++;
  for (int64_t j = 0; j < n; j++, sums += 1 + d + parts.squares()) {
    const float *share = shares + j * kBlockRows, *square = squares + j * kBlockRows, *part = parts.numbers + j * width;
    int32_t which[kBlockRows];
    int64_t there = 0, weight[kBlockRows];
    for (int64_t r = 0; r < count; r++) which[there] = (int32_t)r, there += share[r] != 0.0f;
    if (!there) continue;
    const bool all_rows = (double)there * kGather > (double)count;  // most rows count here: as they lie
    if (all_rows)
      for (int64_t r = there = 0; r < count; r++) which[there++] = (int32_t)r;
    const int64_t padded = (there + kPack - 1) / kPack * kPack;
    bool far = false;
    for (int64_t i = 0; i < there; i++) {
      const int32_t r = which[i];
      own[i] = share[r], far |= square[r] > kMostSquare && share[r] != 0.0f;
      if (weights) weight[i] = weights[r];
    }
    for (int64_t i = there; i < padded; i++) own[i] = 0.0f, weight[i] = 0, which[i] = which[0];
    for (int64_t k = 0; k < d && !all_rows; k++)
      for (int64_t i = 0; i < padded; i++) some[k * kBlockRows + i] = values[k * kBlockRows + which[i]];
    const float* const read = all_rows ? values : some;
    for (int64_t i = 0; i < d; i++)
      for (int64_t r = 0; r < padded; r += kPack)
        store(u + i * kBlockRows + r, whitened<Full>(read + r, part + 2, part + 2 + d, i));
    if (far) {  // onto the sphere within which products are
      for (int64_t i = 0; i < padded; i++) {
        const float s = square[which[i]];
        shrink[i] = s > kMostSquare ? kMostLength / __builtin_sqrtf(s) : 1.0f;
        odd[which[i]] |= s > kMostSquare && own[i] != 0.0f;
      }
      for (int64_t k = 0; k < d; k++)
        for (int64_t i = 0; i < padded; i++) u[k * kBlockRows + i] *= shrink[i];
    }
    add_statistics<Full>(own, u, product, padded, d, weights ? weight : nullptr, sums);
  }
}

void expect(const float* values, int64_t count, const GaussianParts& parts, const int64_t* weights, float* space, uint8_t* odd,
            int64_t* sums) {
  (parts.full ? expect_block<true> : expect_block<false>)(values, count, parts, weights, space, odd, sums);
}
