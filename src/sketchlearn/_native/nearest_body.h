// The nearest of some centers to each of a tile's rows. Included by kernel_body.h, after fused_moments_body.h.
//
// Lanes are rows: no row waits for another, and nothing is summed across a vector.
constexpr int kNearestVectors = 2;
constexpr int kNearestRows = kNearestVectors * kLanes;  // of a tile: of float64, in twice as many vectors

typedef int64_t LongVector __attribute__((vector_size(4 * kLanes)));
inline Vector multiply_add(Vector a, Vector b, Vector c) { return fma(a, b, c); }
inline Doubles multiply_add(Doubles a, Doubles b, Doubles c) { return fused(a, b, c); }
inline Vector load_lanes(const float* p) { return load(p); }
inline Doubles load_lanes(const double* p) { return load_doubles(p); }

// Half a center's square less its product with a row is half their squared distance, but for the row's own square. Rows lie
// in x, [feature][rows]; `negative` are the centers times -1, [n][d], `halves` of their squares; n: a multiple of
// kCentersTogether. The first of equal ones counts.
template <class S, class V, class Label, class Labels>
inline void nearest_vectors(const S* x, int64_t d, const S* negative, const S* halves, int64_t n, int32_t* labels,
                            S* least) {
  constexpr int kWidth = sizeof(V) / sizeof(S);
  V best[kNearestVectors];
  Labels where[kNearestVectors];
  for (int v = 0; v < kNearestVectors; v++) best[v] = __builtin_inff() - V{}, where[v] = Labels{};
  for (int64_t c = 0; c < n; c += kCentersTogether) {
    V sum[kCentersTogether][kNearestVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kCentersTogether; j++)
#pragma GCC unroll 2
      for (int v = 0; v < kNearestVectors; v++) sum[j][v] = halves[c + j] - V{};
    const S* center = negative + c * d;
    for (int64_t k = 0; k < d; k++, center++) {
      V rows[kNearestVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kNearestVectors; v++) rows[v] = load_lanes(x + k * kNearestRows + v * kWidth);
#pragma GCC unroll 4
      for (int j = 0; j < kCentersTogether; j++)
#pragma GCC unroll 2
        for (int v = 0; v < kNearestVectors; v++) sum[j][v] = multiply_add(rows[v], center[j * d] - V{}, sum[j][v]);
    }
#pragma GCC unroll 4
    for (int j = 0; j < kCentersTogether; j++) {
      const Labels at = (Label)(c + j) - Labels{};
#pragma GCC unroll 2
      for (int v = 0; v < kNearestVectors; v++) {
        const auto closer = sum[j][v] < best[v];
        best[v] = closer ? sum[j][v] : best[v];
        where[v] = closer ? at : where[v];
      }
    }
  }
  for (int v = 0; v < kNearestVectors; v++)
    for (int l = 0; l < kWidth; l++) labels[v * kWidth + l] = (int32_t)where[v][l], least[v * kWidth + l] = best[v][l];
}

SKETCHLEARN_HOT void nearest_floats(const float* x, int64_t d, const float* negative, const float* halves, int64_t n,
                                    int32_t* labels, float* least) {
  nearest_vectors<float, Vector, int32_t, IntVector>(x, d, negative, halves, n, labels, least);
}

SKETCHLEARN_HOT void nearest_doubles(const double* x, int64_t d, const double* negative, const double* halves, int64_t n,
                                     int32_t* labels, double* least) {
  constexpr int kAtOnce = kNearestVectors * kDoubles;
  for (int r = 0; r < kNearestRows; r += kAtOnce)
    nearest_vectors<double, Doubles, int64_t, LongVector>(x + r, d, negative, halves, n, labels + r, least + r);
}

// The squared distances of a tile's rows from their centers: differences first, as those of products would cancel.
template <class S>
inline void distance_squares(const S* x, int64_t d, const S* negative, const int32_t* labels, double* squares) {
  int32_t first[kNearestRows];  // of 32 bits, which vectors gather by
  for (int r = 0; r < kNearestRows; r++) first[r] = labels[r] * (int32_t)d, squares[r] = 0.0;
  for (int64_t k = 0; k < d; k++, x += kNearestRows, negative++)
    for (int r = 0; r < kNearestRows; r++) {
      const S away = x[r] + negative[first[r]];
      squares[r] += (double)(away * away);
    }
}
void float_squares(const float* x, int64_t d, const float* negative, const int32_t* labels, double* squares) {
  distance_squares(x, d, negative, labels, squares);
}
void double_squares(const double* x, int64_t d, const double* negative, const int32_t* labels, double* squares) {
  distance_squares(x, d, negative, labels, squares);
}
