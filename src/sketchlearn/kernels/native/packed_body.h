// Products of rows of signs, 64 to a word: with each other by counting differing bits, and with floats by tables of what
// eight signs add up to. Included by kernel_body.h.

// Signs: as many as one instruction takes. add_differing: tally, and how many bits differ, lane by lane; kTallies of those
// fit into a lane. total: the sum of a tally's lanes.
#if defined(SKETCHLEARN_AVX512)
typedef __m512i Signs;
constexpr int kTallies = 31;
inline Signs no_bits() { return _mm512_setzero_si512(); }
inline Signs load_bits(const uint64_t* p) { return _mm512_loadu_si512(p); }
inline Signs add_differing(Signs tally, Signs a, Signs b) {
  const __m512i counts = _mm512_set4_epi32(0x04030302, 0x03020201, 0x03020201, 0x02010100), low = _mm512_set1_epi8(15);
  const __m512i x = _mm512_xor_si512(a, b);
  const __m512i first = _mm512_shuffle_epi8(counts, _mm512_and_si512(x, low));
  const __m512i second = _mm512_shuffle_epi8(counts, _mm512_and_si512(_mm512_maskz_srli_epi16(-1, x, 4), low));
  return _mm512_add_epi8(tally, _mm512_add_epi8(first, second));
}
inline int64_t total(Signs tally) {
  const __m512i sums = _mm512_sad_epu8(tally, _mm512_setzero_si512());
  int64_t parts[8], result = 0;
  __builtin_memcpy(parts, &sums, sizeof parts);
  for (int64_t part : parts) result += part;
  return result;
}
#elif defined(SKETCHLEARN_AVX2)
typedef __m256i Signs;
constexpr int kTallies = 31;
inline Signs no_bits() { return _mm256_setzero_si256(); }
inline Signs load_bits(const uint64_t* p) { return _mm256_loadu_si256((const __m256i*)p); }
inline Signs add_differing(Signs tally, Signs a, Signs b) {
  const __m256i counts = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
  const __m256i low = _mm256_set1_epi8(15), x = _mm256_xor_si256(a, b);
  const __m256i first = _mm256_shuffle_epi8(counts, _mm256_and_si256(x, low));
  const __m256i second = _mm256_shuffle_epi8(counts, _mm256_and_si256(_mm256_srli_epi16(x, 4), low));
  return _mm256_add_epi8(tally, _mm256_add_epi8(first, second));
}
inline int64_t total(Signs tally) {
  const __m256i sums = _mm256_sad_epu8(tally, _mm256_setzero_si256());
  int64_t parts[4];
  __builtin_memcpy(parts, &sums, sizeof parts);
  return parts[0] + parts[1] + parts[2] + parts[3];
}
#elif defined(SKETCHLEARN_NEON)
typedef uint8x16_t Signs;
constexpr int kTallies = 31;
inline Signs no_bits() { return vdupq_n_u8(0); }
inline Signs load_bits(const uint64_t* p) { return vreinterpretq_u8_u64(vld1q_u64(p)); }
inline Signs add_differing(Signs tally, Signs a, Signs b) { return vaddq_u8(tally, vcntq_u8(veorq_u8(a, b))); }
inline int64_t total(Signs tally) { return vaddlvq_u8(tally); }
#else
typedef uint64_t Signs;
constexpr int kTallies = 1 << 20;
inline Signs no_bits() { return 0; }
inline Signs load_bits(const uint64_t* p) { return *p; }
inline Signs add_differing(Signs tally, Signs a, Signs b) { return tally + static_cast<Signs>(__builtin_popcountll(a ^ b)); }
inline int64_t total(Signs tally) { return static_cast<int64_t>(tally); }
#endif
constexpr int kWords = sizeof(Signs) / 8;

inline Signs load_bits(const uint64_t* p, int64_t words) {
  uint64_t some[kWords]{};
  for (int64_t i = 0; i < words; i++) some[i] = p[i];
  return load_bits(some);
}

// out[r][c] = n_bits - 2 (differing bits of rows a[r] and b[c])
template <int R, int C>
SKETCHLEARN_HOT void product_tile(const uint64_t* a, const uint64_t* b, int64_t words, int64_t n_bits, int32_t* out,
                                  int64_t stride) {
  int64_t differing[R][C]{};
  const auto count = [&](int64_t at, int64_t end, const auto& load) {
    Signs tally[R][C], x[R], y[C];
    for (int r = 0; r < R; r++)
      for (int c = 0; c < C; c++) tally[r][c] = no_bits();
    for (; at < end; at += kWords) {
#pragma GCC unroll 4
      for (int r = 0; r < R; r++) x[r] = load(a + r * words + at);
#pragma GCC unroll 4
      for (int c = 0; c < C; c++) y[c] = load(b + c * words + at);
#pragma GCC unroll 4
      for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int c = 0; c < C; c++) tally[r][c] = add_differing(tally[r][c], x[r], y[c]);
    }
    for (int r = 0; r < R; r++)
      for (int c = 0; c < C; c++) differing[r][c] += total(tally[r][c]);
  };
  const int64_t rest = words % kWords, whole = words - rest;
  constexpr int64_t most = kTallies * kWords;
  for (int64_t at = 0; at < whole; at += most)
    count(at, whole - at < most ? whole : at + most, [](const uint64_t* p) { return load_bits(p); });
  if (rest) count(whole, words, [rest](const uint64_t* p) { return load_bits(p, rest); });
  for (int r = 0; r < R; r++)
    for (int c = 0; c < C; c++) out[r * stride + c] = static_cast<int32_t>(n_bits - 2 * differing[r][c]);
}

constexpr int kBitRows = sizeof(Signs) == 32 ? 2 : 4;  // AVX2 has 16 registers

template <int R>
inline void product_rows(const BitRows& a, int64_t r, const BitRows& b, int64_t n_bits, int32_t* out, int64_t stride) {
  int64_t c = 0;
  for (; c + 4 <= b.count; c += 4)
    product_tile<R, 4>(a.words + r * a.width, b.words + c * a.width, a.width, n_bits, out + r * stride + c, stride);
  for (; c < b.count; c++)
    product_tile<R, 1>(a.words + r * a.width, b.words + c * a.width, a.width, n_bits, out + r * stride + c, stride);
}

void bit_products(const BitRows& a, const BitRows& b, int64_t n_bits, int32_t* out, int64_t stride) {
  int64_t r = 0;
  for (; r + kBitRows <= a.count; r += kBitRows) product_rows<kBitRows>(a, r, b, n_bits, out, stride);
  for (; r < a.count; r++) product_rows<1>(a, r, b, n_bits, out, stride);
}

// A sum goes byte by byte of the row: ((((0 +- w_0) +- w_1) ... +- w_7) is added, then that of the next eight weights.
// Every path keeps this order: the same floats for a row alone, in a block, and on every machine.
constexpr int kSumVectors = kLanes == 4 ? 2 : 1, kSumColumns = kSumVectors * kLanes;
constexpr int kBytesAtOnce = 4;

SKETCHLEARN_HOT void fill_table(const float* weights, float* table) {
  for (int i = 0; i < kSumColumns; i++) table[i] = 0.0f;
  for (int bit = 0; bit < 8; bit++)
    for (int v = 0; v < kSumColumns; v += kLanes) {
      const Vector w = load(weights + bit * kSumColumns + v);
      for (int entry = 0; entry < 1 << bit; entry++) {
        float* low = table + entry * kSumColumns + v;
        const Vector sum = load(low);
        store(low + (kSumColumns << bit), sum + w);
        store(low, sum - w);
      }
    }
}

// The bytes lie in one word of each row.
template <int Bytes>
SKETCHLEARN_HOT void add_bytes(const BitRows& bits, int64_t byte, const float* tables, float* sums) {
  const uint64_t* word = bits.words + byte / 8;
  const int shift = static_cast<int>(byte % 8 * 8);
  for (int64_t r = 0; r < bits.count; r++, sums += kSumColumns, word += bits.width) {
    const uint64_t octets = *word >> shift;
    Vector sum[kSumVectors];
    for (int v = 0; v < kSumVectors; v++) sum[v] = load(sums + v * kLanes);
#pragma GCC unroll 4
    for (int i = 0; i < Bytes; i++) {
      const float* entry = tables + (256 * i + (octets >> 8 * i & 255)) * kSumColumns;
      for (int v = 0; v < kSumVectors; v++) sum[v] = sum[v] + load(entry + v * kLanes);
    }
    for (int v = 0; v < kSumVectors; v++) store(sums + v * kLanes, sum[v]);
  }
}

void signed_sums(const BitRows& bits, int64_t bytes, const float* weights, float* tables, float* sums) {
  for (int64_t i = 0; i < bits.count * kSumColumns; i++) sums[i] = 0.0f;
  int64_t byte = 0;
  for (; byte + kBytesAtOnce <= bytes; byte += kBytesAtOnce) {
    for (int i = 0; i < kBytesAtOnce; i++) fill_table(weights + (byte + i) * 8 * kSumColumns, tables + 256 * i * kSumColumns);
    add_bytes<kBytesAtOnce>(bits, byte, tables, sums);
  }
  for (; byte < bytes; byte++) {
    fill_table(weights + byte * 8 * kSumColumns, tables);
    add_bytes<1>(bits, byte, tables, sums);
  }
}

template <int Bits>
SKETCHLEARN_HOT void add_signed(uint64_t signs, const float* weights, int64_t stride, int64_t columns, float* sums) {
  float sign[Bits];
  for (int bit = 0; bit < Bits; bit++) sign[bit] = signs >> bit & 1 ? 1.0f : -1.0f;
  int64_t c = 0;
  for (; c + kLanes <= columns; c += kLanes) {
    Vector part{};
#pragma GCC unroll 8
    for (int bit = 0; bit < Bits; bit++) part = part + sign[bit] * load(weights + bit * stride + c);
    store(sums + c, load(sums + c) + part);
  }
  for (; c < columns; c++) {
    float part = 0.0f;
    for (int bit = 0; bit < Bits; bit++) part = part + sign[bit] * weights[bit * stride + c];
    sums[c] = sums[c] + part;
  }
}

void signed_row(const uint64_t* row, int64_t n_bits, const float* weights, int64_t stride, int64_t columns, float* sums) {
  for (int64_t c = 0; c < columns; c++) sums[c] = 0.0f;
  int64_t bit = 0;
  for (; bit + 8 <= n_bits; bit += 8) add_signed<8>(row[bit / 64] >> (bit % 64), weights + bit * stride, stride, columns, sums);
  if (bit == n_bits) return;
  for (int64_t c = 0; c < columns; c++) {
    float part = 0.0f;
    for (int64_t b = bit; b < n_bits; b++) part = part + (row[b / 64] >> (b % 64) & 1 ? weights[b * stride + c] : -weights[b * stride + c]);
    sums[c] = sums[c] + part;
  }
}
