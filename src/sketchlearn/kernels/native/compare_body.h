// Components against a target, in one pass over tiles of frequencies that stay in the cache. Included by kernel_body.h.
static_assert(kColumns == kPack && kTile % kPack == 0, "a panel of phases is one pack of a wave");
constexpr int kPanels = kTile / kPack;
constexpr int kRowsAtOnce = 4;
constexpr int kMostAtOnce = kLanes == 8 ? 2 : 4;  // columns: AVX2 has 16 registers
constexpr int64_t kRowStep = kTileRows % kRowsAtOnce ? 2 * kTileRows : kTileRows;
static_assert(kRowStep % kRowsAtOnce == 0, "whole blocks of rows");

// What one tile needs, cut out of one piece of memory. Components are padded by some without weight.
struct ComparisonSpace {
  int64_t n, d, q, width;  // width: sums per component besides those of its location
  int64_t alpha, locations, shapes, by_location, by_size, by_shared, turns, quadratics, cosines, sines;  // where each begins
  int64_t length = 0;
  explicit ComparisonSpace(const Comparison& given)
      : n((given.n_components + kRowStep - 1) / kRowStep * kRowStep), d(given.n_features), q(given.n_shape),
        width(given.tied ? 1 : 1 + q) {
    const auto cut = [this](int64_t floats) { length += floats; return length - floats; };
    alpha = cut(n), locations = cut(n * d), shapes = cut(n * q);
    by_location = cut(n * d * kLanes), by_size = cut(n * width * kLanes), by_shared = cut(q * kLanes);
    turns = cut(kTile * d), quadratics = cut(kTile * (1 + q)), cosines = cut(kTile * n), sines = cut(kTile * n);
  }
};

int64_t comparison_space(const Comparison& given) { return ComparisonSpace(given).length; }

// to[block][k][r] = from[block rows + r][k]
inline void pack_rows(const float* from, int64_t rows, int64_t columns, float* to) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t k = 0; k < columns; k++)
      to[(r - r % kTileRows) * columns + k * kTileRows + r % kTileRows] = from[r * columns + k];
}

// to[panel][row][kPack] = from[row][m], `live` columns of it and then zeros
inline void pack_panels(const float* from, int64_t m, int64_t rows, int64_t live, float* to, int64_t panel_step) {
  for (int64_t p = 0; p * kPack < live; p++)
    for (int64_t r = 0; r < rows; r++) {
      const float* source = from + r * m + p * kPack;
      float* panel = to + p * panel_step + r * kPack;
      if (live >= (p + 1) * kPack) {
        store(panel, load_pack(source));
        continue;
      }
      for (int64_t i = 0; i < kPack; i++) panel[i] = p * kPack + i < live ? source[i] : 0.0f;
    }
}

// sums[r][c] += sum over panels of rows[r] * columns[c], lane by lane
template <int R, int C>
SKETCHLEARN_HOT void add_products(const float* rows, int64_t row_step, const float* columns, int64_t column_step, int panels,
                                  float* sums, int64_t sum_step) {
  Vector sum[R][C];
#pragma GCC unroll 4
  for (int r = 0; r < R; r++)
#pragma GCC unroll 4
    for (int c = 0; c < C; c++) sum[r][c] = load(sums + r * sum_step + c * kLanes);
  for (int p = 0; p < panels; p++, rows += row_step, columns += column_step)
    for (int64_t v = 0; v < kPack; v += kLanes) {
      Vector x[R];
#pragma GCC unroll 4
      for (int r = 0; r < R; r++) x[r] = load(rows + r * kPack + v);
#pragma GCC unroll 4
      for (int c = 0; c < C; c++) {
        const Vector y = load(columns + c * kPack + v);
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) sum[r][c] = fma(x[r], y, sum[r][c]);
      }
    }
#pragma GCC unroll 4
  for (int r = 0; r < R; r++)
#pragma GCC unroll 4
    for (int c = 0; c < C; c++) store(sums + r * sum_step + c * kLanes, sum[r][c]);
}

template <int R>
inline void add_all_products(const float* rows, int64_t row_step, int64_t n, const float* columns, int64_t column_step,
                             int64_t width, int panels, float* sums) {
  for (int64_t r = 0; r < n; r += R) {
    const float* x = rows + r * kPack;
    float* sum = sums + r * width * kLanes;
    int64_t c = 0;
    for (; c + kMostAtOnce <= width; c += kMostAtOnce)
      add_products<R, kMostAtOnce>(x, row_step, columns + c * kPack, column_step, panels, sum + c * kLanes, width * kLanes);
    for (; c + 2 <= width; c += 2)
      add_products<R, 2>(x, row_step, columns + c * kPack, column_step, panels, sum + c * kLanes, width * kLanes);
    for (; c < width; c++)
      add_products<R, 1>(x, row_step, columns + c * kPack, column_step, panels, sum + c * kLanes, width * kLanes);
  }
}

// The waves of all components at one panel of frequencies: written to cosines and sines, and summed with weights alpha.
inline void sum_waves(const ComparisonSpace& s, const float* space, bool tied, const float* shift, const float* turns, const float* quadratics,
                      float* cosines, float* sines, Floats& re, Floats& im) {
  float phases[kTileRows * kPack], exponents[kTileRows * kPack];
  re = im = pack(0.0f);
  for (int64_t b = 0; b < s.n; b += kTileRows) {
    multiply<true>(space + s.locations + b * s.d, turns, s.d, phases);
    if (!tied) multiply<true>(space + s.shapes + b * s.q, quadratics, s.q, exponents);
    float *cosine = cosines + b * kPack, *sine = sines + b * kPack;
    for (int i = 0; i < kTileRows * kPack; i += kPack) {
      store(phases + i, load_pack(phases + i) + load_pack(shift));
      wave_pack(phases + i, tied ? nullptr : exponents + i, cosine + i, sine + i);
    }
    for (int r = 0; r < kTileRows; r++) {
      const Floats weight = pack(space[s.alpha + b + r]);
      re = fma(weight, load_pack(cosine + r * kPack), re);
      im = fma(weight, load_pack(sine + r * kPack), im);
    }
  }
}

// cosines become what changes with the phases, sines what changes with the sizes.
SKETCHLEARN_HOT void turn(float* cosines, float* sines, int64_t n, const float* re, const float* im) {
  for (int64_t i = 0; i < n * kPack; i += kPack) {
    const Floats a = load_pack(cosines + i), b = load_pack(sines + i);
    store(cosines + i, subtract_product(b, load_pack(re), a * load_pack(im)));
    store(sines + i, fma(b, load_pack(im), a * load_pack(re)));
  }
}

inline double lanes_total(const float* sums) {
  double total = 0.0;
  for (int i = 0; i < kLanes; i++) total += static_cast<double>(sums[i]);
  return total;
}

void compare(const Comparison& given, int64_t from, int64_t to, float* space, double* sums) {
  const ComparisonSpace s(given);
  const int64_t turns_step = s.d * kPack, quadratics_step = (1 + s.q) * kPack, m = given.n_frequencies;
  for (int64_t i = 0; i < s.turns; i++) space[i] = 0.0f;
  for (int64_t l = 0; l < given.n_components; l++) space[s.alpha + l] = given.weights[l];
  pack_rows(given.locations, given.n_components, s.d, space + s.locations);
  if (!given.tied) pack_rows(given.shapes, given.n_components, s.q, space + s.shapes);
  Floats costs = pack(0.0f);
  for (int64_t at = from; at < to; at += kTile) {
    const int64_t live = to - at < kTile ? to - at : kTile;
    const int panels = static_cast<int>((live + kPack - 1) / kPack);
    float shift[kTile], values[kPanels][2][kPack], counts[kPanels][2][kPack];
    for (int64_t i = 0; i < kTile; i++) shift[i] = 0.0f;
    if (given.shifts)
      for (int64_t i = 0; i < live; i++) shift[i] = given.shifts[at + i];
    pack_panels(given.turns + at, m, s.d, live, space + s.turns, turns_step);
    pack_panels(given.quadratics + at, m, s.q, live, space + s.quadratics + kPack, quadratics_step);
    pack_panels(given.counts + at, m, 2, live, counts[0][0], 2 * kPack);
    if (given.values) pack_panels(given.values + at, m, 2, live, values[0][0], 2 * kPack);
    for (int p = 0; p < panels; p++) {
      float *cosines = space + s.cosines + p * s.n * kPack, *sines = space + s.sines + p * s.n * kPack;
      float *quadratics = space + s.quadratics + p * quadratics_step, field[2][kPack];
      store(quadratics, pack(1.0f));  // so that one product of matrices gives the gradient by weight, too
      Floats re, im, size = pack(0.0f);
      sum_waves(s, space, given.tied, shift + p * kPack, space + s.turns + p * turns_step, quadratics + kPack, cosines, sines, re, im);
      for (int64_t k = 0; given.tied && k < s.q; k++)
        size = fma(pack(given.shapes[k]), load_pack(quadratics + (1 + k) * kPack), size);
      size = decay(size);
      Floats f_re = load_pack(counts[p][0]), f_im = load_pack(counts[p][1]);
      if (given.values) {
        const Floats r_re = fma(re, size, -load_pack(values[p][0])), r_im = fma(im, size, -load_pack(values[p][1]));
        f_re = f_re * r_re, f_im = f_im * r_im;
        costs = fma(r_re, f_re, fma(r_im, f_im, costs));
      }
      f_re = f_re * size, f_im = f_im * size;
      store(field[0], f_re), store(field[1], f_im);
      turn(cosines, sines, s.n, field[0], field[1]);
      if (given.tied) {
        store(field[0], fma(re, f_re, im * f_im));
        add_all_products<1>(field[0], 0, 1, quadratics + kPack, 0, s.q, 1, space + s.by_shared);
      }
    }
    add_all_products<kRowsAtOnce>(space + s.cosines, s.n * kPack, s.n, space + s.turns, turns_step, s.d, panels, space + s.by_location);
    add_all_products<kRowsAtOnce>(space + s.sines, s.n * kPack, s.n, space + s.quadratics, quadratics_step, s.width, panels, space + s.by_size);
  }
  float cost[kPack];
  store(cost, costs);
  for (int i = 0; i < kPack; i += kLanes) *sums += lanes_total(cost + i);
  double *by_weight = sums + 1, *by_location = by_weight + given.n_components;
  double* by_shape = by_location + given.n_components * s.d;
  for (int64_t l = 0; l < given.n_components; l++) {
    by_weight[l] = lanes_total(space + s.by_size + l * s.width * kLanes);
    for (int64_t k = 0; k < s.d; k++) by_location[l * s.d + k] = lanes_total(space + s.by_location + (l * s.d + k) * kLanes);
    for (int64_t k = 1; k < s.width; k++) by_shape[l * s.q + k - 1] = lanes_total(space + s.by_size + (l * s.width + k) * kLanes);
  }
  for (int64_t k = 0; given.tied && k < s.q; k++) by_shape[k] = lanes_total(space + s.by_shared + k * kLanes);
}
