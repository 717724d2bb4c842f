// First and second moments whose products are rounded twice: to float64, then to integers one record at a time, as files
// of before have them. Included by kernel_body.h.
typedef double Doubles __attribute__((vector_size(4 * kLanes)));
typedef uint64_t Words __attribute__((vector_size(4 * kLanes)));
constexpr int kDoubles = kLanes / 2;
constexpr int kMomentRows = kLanes == 16 ? 8 : 4;       // a tile of products: so many rows of the matrix,
constexpr int kMomentVectors = kLanes == 16 ? 1 : 2;    // and so many vectors of its columns
constexpr int kMomentColumns = kMomentVectors * kDoubles;
static_assert(kMomentRows <= kMomentsPadding && kMomentColumns <= kMomentsPadding &&
              kMomentsPadding % kMomentRows == 0 && kMomentsPadding % kMomentColumns == 0, "rows are padded to whole tiles");

constexpr double kMomentScale = 1073741824.0;            // 2^30
constexpr double kMomentRound = 6755399441055744.0;      // 1.5 * 2^52: adding it rounds to an integer, in the low bits
constexpr int64_t kMomentBias = 0x4338000000000000;     // its bits

inline int64_t moment_of(double product) {
  const double rounded = product + kMomentRound;
  int64_t integer;
  __builtin_memcpy(&integer, &rounded, sizeof integer);
  return integer - kMomentBias;
}
inline Doubles load_doubles(const double* p) {
  Doubles v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

// Adds the integers of a[r] y[k] 2^30 over `count` records, of one tile: a and y are `stride` apart from record to record.
SKETCHLEARN_HOT void moment_tile(const double* a, const double* y, int64_t stride, int64_t count,
                                 uint64_t (*tile)[kMomentColumns]) {
  Words sum[kMomentRows][kMomentVectors]{};
  for (int64_t i = 0; i < count; i++, a += stride, y += stride) {
    Doubles columns[kMomentVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kMomentVectors; v++) columns[v] = load_doubles(y + v * kDoubles) * kMomentScale;
#pragma GCC unroll 8
    for (int r = 0; r < kMomentRows; r++)
#pragma GCC unroll 4
      for (int v = 0; v < kMomentVectors; v++)
        sum[r][v] += (Words)(columns[v] * a[r] + kMomentRound);
  }
  __builtin_memcpy(tile, sum, sizeof sum);
}

// Records that count once: products in tiles that stay in registers over all records.
inline void plain_moments(const double* rows, int64_t count, int64_t stride, int64_t d, int64_t* sums) {
  const uint64_t bias = static_cast<uint64_t>(count) * static_cast<uint64_t>(kMomentBias);
  for (int64_t i = 0; i < count; i++)
    for (int64_t k = 0; k < d; k++) sums[k] += moment_of(kMomentScale * rows[i * stride + k]);
  uint64_t tile[kMomentRows][kMomentColumns];
  for (int64_t j = 0; j < d; j += kMomentRows)
    for (int64_t k = 0; k < j + kMomentRows && k < d; k += kMomentColumns) {
      moment_tile(rows + j, rows + k, stride, count, tile);
      for (int64_t r = j; r < j + kMomentRows && r < d; r++)
        for (int64_t c = k; c < k + kMomentColumns && c <= r; c++)
          sums[d + r * (r + 1) / 2 + c] += static_cast<int64_t>(tile[r - j][c - k] - bias);
    }
}

void moments(const double* rows, int64_t count, int64_t stride, int64_t d, const int64_t* weights, int64_t* sums) {
  if (!weights) return plain_moments(rows, count, stride, d, sums);
  for (int64_t i = 0; i < count; i++) {
    const double* y = rows + i * stride;
    int64_t* out = sums;
    for (int64_t j = -1; j < d; j++) {
      const double a = j < 0 ? kMomentScale : y[j] * kMomentScale;
      const int64_t length = j < 0 ? d : j + 1;
      for (int64_t k = 0; k < length; k++) out[k] += weights[i] * moment_of(a * y[k]);
      out += length;
    }
  }
}
