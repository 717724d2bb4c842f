// Steps of k-means on rows that lie in tiles, [tile][column][rows]. Lanes are rows: no row waits for another, and nothing is
// summed across a vector. Included by kernel_body.h, after cells_body.h.
constexpr int kRowVectors = 2;       // of a tile
constexpr int kCentersTogether = 4;  // whose products are added up side by side
template <class S>
constexpr int kRowsOfTile = kRowVectors * Lanes<S>::kCount;

// Half the squared distances of a tile's rows from some centers, less half the rows' own squares: of each, its half square less
// a product, which is a chain of fused multiply-adds, columns ascending. centers: times -1, [n][d].
template <int N, class S>
inline void half_squares(const S* x, int64_t d, const S* negative, const S* halves, NumbersOf<S> (*sum)[kRowVectors]) {
#pragma GCC unroll 8
  for (int j = 0; j < N; j++)
#pragma GCC unroll 2
    for (int v = 0; v < kRowVectors; v++) sum[j][v] = halves[j] - NumbersOf<S>{};
  for (int64_t k = 0; k < d; k++, negative++) {
    NumbersOf<S> rows[kRowVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kRowVectors; v++) rows[v] = load_lanes(x + k * kRowsOfTile<S> + v * Lanes<S>::kCount);
#pragma GCC unroll 8
    for (int j = 0; j < N; j++)
#pragma GCC unroll 2
      for (int v = 0; v < kRowVectors; v++) sum[j][v] = multiply_add(rows[v], negative[j * d] - NumbersOf<S>{}, sum[j][v]);
  }
}

// The nearest center of each row, the first of equal ones, half its squared distance less half the row's own square, and the
// same of the next nearest one, if that is asked for. n: a multiple of kCentersTogether.
template <class S, bool Second>
SKETCHLEARN_HOT void nearest_in_tiles(const S* x, int64_t n_tiles, int64_t d, const CenterList<S>& centers, int32_t* labels, S* least,
                                      S* second) {
  constexpr int kWidth = Lanes<S>::kCount;
  for (int64_t t = 0; t < n_tiles; t++, x += d * kRowsOfTile<S>) {
    NumbersOf<S> best[kRowVectors], next[kRowVectors];
    typename Lanes<S>::Positions where[kRowVectors];
    for (int v = 0; v < kRowVectors; v++) best[v] = next[v] = __builtin_inff() - NumbersOf<S>{}, where[v] = typename Lanes<S>::Positions{};
    for (int64_t c = 0; c < centers.n_padded; c += kCentersTogether) {
      NumbersOf<S> sum[kCentersTogether][kRowVectors];
      half_squares<kCentersTogether>(x, d, centers.negative + c * d, centers.halves + c, sum);
#pragma GCC unroll 4
      for (int j = 0; j < kCentersTogether; j++) {
        const typename Lanes<S>::Positions at = (typename Lanes<S>::Position)(c + j) - typename Lanes<S>::Positions{};
#pragma GCC unroll 2
        for (int v = 0; v < kRowVectors; v++) {
          const auto closer = sum[j][v] < best[v];
          if constexpr (Second) {
            const NumbersOf<S> farther = closer ? best[v] : sum[j][v];
            next[v] = farther < next[v] ? farther : next[v];
          }
          best[v] = closer ? sum[j][v] : best[v];
          where[v] = closer ? at : where[v];
        }
      }
    }
    for (int v = 0; v < kRowVectors; v++, labels += kWidth, least += kWidth) {
      __builtin_memcpy(least, &best[v], sizeof best[v]);
      for (int l = 0; l < kWidth; l++) labels[l] = (int32_t)where[v][l];
      if constexpr (Second) __builtin_memcpy(second, &next[v], sizeof next[v]), second += kWidth;
    }
  }
}
template <class S>
void nearest_rows(const S* x, int64_t n_tiles, int64_t d, const CenterList<S>& centers, int32_t* labels, S* least, S* second) {
  (second ? nearest_in_tiles<S, true> : nearest_in_tiles<S, false>)(x, n_tiles, d, centers, labels, least, second);
}

// Squared distances from a candidate, no less than 0 and no more than `most`.
template <class S>
inline NumbersOf<S> square_within(NumbersOf<S> half, const S* lengths, const S* most) {
  const NumbersOf<S> square = load_lanes(lengths) + (half + half), above = square > 0 ? square : NumbersOf<S>{};
  const NumbersOf<S> limit = load_lanes(most);
  return above < limit ? above : limit;
}

// Adds, for each of kMostCandidates, the weighted squared distances from it or from the points before, whichever are less, to
// totals. Tiles are added up in their own precision.
template <class S>
SKETCHLEARN_HOT void add_candidate_costs(const S* x, int64_t n_tiles, int64_t d, const CenterList<S>& candidates, const S* lengths,
                                         const S* squares, const S* weights, double* totals) {
  constexpr int kWidth = Lanes<S>::kCount;
  NumbersOf<S> total[kMostCandidates]{};
  for (int64_t t = 0; t < n_tiles; t++, x += d * kRowsOfTile<S>) {
    for (int c = 0; c < kMostCandidates; c += kCentersTogether) {
      NumbersOf<S> sum[kCentersTogether][kRowVectors];
      half_squares<kCentersTogether>(x, d, candidates.negative + c * d, candidates.halves + c, sum);
      for (int v = 0; v < kRowVectors; v++) {
        const int64_t at = t * kRowsOfTile<S> + v * kWidth;
        for (int j = 0; j < kCentersTogether; j++)
          total[c + j] += square_within<S>(sum[j][v], lengths + at, squares + at) * load_lanes(weights + at);
      }
    }
  }
  for (int c = 0; c < kMostCandidates; c++)
    for (int i = 0; i < kWidth; i++) totals[c] += (double)total[c][i];
}

// Brings squares down to those from one more point.
template <class S>
void lower_squares(const S* x, int64_t n_tiles, int64_t d, const CenterList<S>& point, const S* lengths, S* squares) {
  constexpr int kWidth = Lanes<S>::kCount;
  for (int64_t t = 0; t < n_tiles; t++, x += d * kRowsOfTile<S>) {
    NumbersOf<S> sum[1][kRowVectors];
    half_squares<1>(x, d, point.negative, point.halves, sum);
    for (int v = 0; v < kRowVectors; v++, lengths += kWidth, squares += kWidth) {
      const NumbersOf<S> lower = square_within<S>(sum[0][v], lengths, squares);
      __builtin_memcpy(squares, &lower, sizeof lower);
    }
  }
}

// Adds weighted rows, [row][stride], to the sums of their clusters, [cluster][stride]: whole vectors.
template <class S>
SKETCHLEARN_HOT void add_weighted(const S* rows, int64_t count, int64_t stride, const int32_t* labels, const S* weights, double* sums) {
  for (int64_t r = 0; r < count; r++, rows += stride) {
    double* own = sums + labels[r] * stride;
    for (int64_t k = 0; k < stride; k += kDoubles) {
      const Doubles total = load_doubles(own + k) + load_wide(rows + k) * (double)weights[r];
      __builtin_memcpy(own + k, &total, sizeof total);
    }
  }
}
