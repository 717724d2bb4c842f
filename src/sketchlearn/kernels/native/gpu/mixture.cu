// Expected statistics of a mixture of Gaussians (docs/reference/arithmetic.md): the operations of mixture_body.h, row
// by row.
#include "device.h"
#include "rows_at_device.h"

struct MixtureWork {
  RowsAtDevice rows;
  const double* center;
  const float *single_center, *scale;
  const float* parts;            // [component][2 + d + squares]
  const int64_t* weights;        // of each row, or null
  int64_t* sums;                 // the log-likelihood, and [component][1 + d + squares]
  unsigned long long* first_bad;
  int32_t n_parts, full, n_shared;  // n_shared: all sums, which a block adds up on its own, or none
};

constexpr int kBlock = 256, kRows = 32, kTilesOfBlock = 32;  // of a block's rows
constexpr int kMostColumns = 64, kMostParts = 96, kMostShared = 2048;
constexpr float kUnit = 4194304.0f, kLogUnit = 1024.0f, kMostSquare = 0.999f;
constexpr float kRound = 12582912.0f;  // 1.5 * 2^23
constexpr uint32_t kRoundBits = 0x4b400000u;

DEVICE int64_t integer_of(float sum) { return (int32_t)(__float_as_uint(sum) - kRoundBits); }  // of a sum with kRound

// exp(-x) for x >= 0, zero beyond 87.
DEVICE float decay(float x) {
  const float y = __fmul_rn(x < 87.0f ? x : 87.0f, -1.44269504f), n = rintf(y), f = __fadd_rn(y, -n);
  float p = __fmaf_rn(0.00132647401f, f, 0.00967151299f);
  p = __fmaf_rn(p, f, 0.0555073358f);
  p = __fmaf_rn(p, f, 0.240222424f);
  p = __fmaf_rn(p, f, 0.693147004f);
  p = __fmaf_rn(p, f, 1.0f);
  const uint32_t power = __float_as_uint(__fadd_rn(n, kRound)) - (kRoundBits - 127u) << 23;
  return x < 87.0f ? __fmul_rn(__uint_as_float(power), p) : 0.0f;
}

// log(x) for x >= 1.
DEVICE float logarithm(float x) {
  const uint32_t exponent = (__float_as_uint(x) - 0x3f3504f3u) >> 23;
  const float near = __uint_as_float(__float_as_uint(x) - (exponent << 23));
  const float z = __fdiv_rn(__fadd_rn(near, -1.0f), __fadd_rn(near, 1.0f)), square = __fmul_rn(z, z);
  float p = __fmaf_rn(0.285714286f, square, 0.4f);
  p = __fmaf_rn(p, square, 0.666666667f);
  p = __fmaf_rn(p, square, 2.0f);
  return __fmaf_rn(__int2float_rn((int)exponent), 0.693147181f, __fmul_rn(p, z));
}

// A whitened coordinate of a row; values: [column][kRows].
DEVICE float whitened(const float (*values)[kRows], int row, const float* shift, const float* matrix, int i, int full) {
  if (!full) return __fmaf_rn(values[i][row], matrix[i], shift[i]);
  const float* own = matrix + i * (i + 1) / 2;
  float u = shift[i];
  for (int k = 0; k <= i; k++) u = __fmaf_rn(values[k][row], own[k], u);
  return u;
}

// Many tiles of rows to a block. Rows beyond the bound, or far from a component that they count in, are refused.
KERNEL(kBlock, 1) add_expected(const MixtureWork work) {
  SHARED float values[kMostColumns][kRows], coordinates[kMostColumns][kRows], shares[kMostParts][kRows], likelihoods[kRows];
  SHARED int64_t own[kMostShared], weights[kRows];
  SHARED unsigned far[kRows];
  const int d = work.rows.n_features, n = work.n_parts, n_squares = work.full ? d * (d + 1) / 2 : d, width = 2 + d + n_squares;
  int64_t* const sums = work.n_shared ? own : work.sums;
  for (int i = threadIdx.x; i < work.n_shared; i += kBlock) own[i] = 0;
  for (int tile = 0; tile < kTilesOfBlock; tile++) {
    const int64_t first = (blockIdx.x * (int64_t)kTilesOfBlock + tile) * kRows;
    const int count = (int)min((int64_t)kRows, work.rows.count - first);
    if (count <= 0) break;
    __syncthreads();
    for (int at = threadIdx.x; at < d * kRows; at += kBlock) {
      const int row = at / d, k = at % d;
      float v = 0.0f;
      if (row < count) {
        const float away = work.rows.kind == kFloat64
                               ? __double2float_rn(__dadd_rn(double_at(work.rows, first + row, k), -work.center[k]))
                               : __fadd_rn(single_at(work.rows, first + row, k), -work.single_center[k]);
        v = __fmul_rn(away, work.scale[k]);
        if (!(fabsf(v) <= kUnit)) atomicMin(work.first_bad, (unsigned long long)(first + row));
      }
      values[k][row] = v;
    }
    if (threadIdx.x < kRows) {
      weights[threadIdx.x] = threadIdx.x >= count ? 0 : work.weights ? work.weights[first + threadIdx.x] : 1;
      far[threadIdx.x] = 0;
    }
    __syncthreads();
    for (int at = threadIdx.x; at < n * kRows; at += kBlock) {  // logarithms of weights times densities
      const int row = at % kRows, j = at / kRows;
      const float* part = work.parts + (int64_t)j * width;
      float square = 0.0f;
      for (int i = 0; i < d; i++) {
        const float u = whitened(values, row, part + 2, part + 2 + d, i, work.full);
        square = __fmaf_rn(u, u, square);
      }
      shares[j][row] = __fmaf_rn(square, part[1], part[0]);
    }
    __syncthreads();
    if (threadIdx.x < kRows) {  // responsibilities
      const int row = threadIdx.x;
      float top = shares[0][row], total = 0.0f, left = kUnit;
      int likeliest = -1;
      for (int j = 1; j < n; j++) top = shares[j][row] > top ? shares[j][row] : top;
      for (int j = 0; j < n; j++) {
        const float part = decay(__fadd_rn(top, -shares[j][row]));
        total = __fadd_rn(total, part);
        if (part == 1.0f && likeliest < 0) likeliest = j;
        shares[j][row] = part;
      }
      const float likelihood = __fmul_rn(__fadd_rn(top, logarithm(total)), kLogUnit), factor = __fdiv_rn(kUnit, total);
      likelihoods[row] = likelihood > -kUnit ? likelihood : -kUnit;
      for (int j = 0; j < n; j++) {
        const float share = rintf(__fmul_rn(shares[j][row], factor));
        left = __fadd_rn(left, -share);
        shares[j][row] = share;
      }
      shares[likeliest < 0 ? 0 : likeliest][row] = __fadd_rn(shares[likeliest < 0 ? 0 : likeliest][row], left);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int64_t total = 0;
      for (int row = 0; row < count; row++) total += weights[row] * (int64_t)__float2int_rn(likelihoods[row]);
      add_to(sums, total);
    }
    for (int j = 0; j < n; j++) {
      const float* part = work.parts + (int64_t)j * width;
      int64_t* const to = sums + 1 + j * (int64_t)(1 + d + n_squares);
      for (int at = threadIdx.x; at < d * kRows; at += kBlock)
        coordinates[at / kRows][at % kRows] = whitened(values, at % kRows, part + 2, part + 2 + d, at / kRows, work.full);
      __syncthreads();
      if (threadIdx.x < count && shares[j][threadIdx.x] != 0.0f) {  // the length of those that count here
        float square = 0.0f;
        for (int i = 0; i < d; i++) square = __fmaf_rn(coordinates[i][threadIdx.x], coordinates[i][threadIdx.x], square);
        if (square > kMostSquare) atomicMin(work.first_bad, (unsigned long long)(first + threadIdx.x));
      }
      for (int s = threadIdx.x; s < 1 + d + n_squares; s += kBlock) {
        int64_t total = 0;
        int i = work.full ? 0 : s - 1 - d, k = s - 1 - d;
        while (work.full && k > i) k -= ++i;  // row i and column k of the triangle
        for (int row = 0; row < count; row++) {
          const float share = shares[j][row];
          float term = __fadd_rn(share, kRound);
          if (s > d) term = __fmaf_rn(__fmul_rn(share, coordinates[i][row]), coordinates[k][row], kRound);
          else if (s > 0) term = __fadd_rn(__fmul_rn(share, coordinates[s - 1][row]), kRound);
          total += weights[row] * integer_of(term);
        }
        if (total) add_to(to + s, total);
      }
      __syncthreads();
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < work.n_shared; i += kBlock)
    if (own[i]) add_to(work.sums + i, own[i]);
}
