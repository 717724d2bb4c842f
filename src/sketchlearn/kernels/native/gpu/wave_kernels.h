// What the kernels of a wave have in common: SKETCHLEARN_WAVE says which. Rows are those that centre.cu prepared.
#include "device.h"
#include "../wave_numbers.h"

// Fourier coefficients of a wave given by them; see kernel.h.
struct Coefficients {
  const float* values;
  int64_t harmonics;
};

namespace far {
#include "lane.h"
#include "../waves.h"
#include "../quantized_waves.h"
using Wave = SKETCHLEARN_WAVE;
}  // namespace far

struct DenseWork {
  const float* rows;  // [column][stride], centred; zeros beyond a tile's rows
  const TileOfRows* tiles;
  const float* frequencies;  // [column][padded], in turns, each group's at a multiple of kTileColumns
  const float* dither;       // [padded]
  const int64_t* weights;    // of each row, or null
  int64_t* sums;             // [part][columns]
  int32_t* integers;         // [row][part][group_columns], of write_features
  Coefficients given;
  int64_t stride, padded, columns;
  int32_t n_features, n_tiles, tiles_per_block, group_columns, padded_group;  // at most 15 tiles: 32 bits hold their sums
  float limit;  // tiles with values beyond it may have phases of 2^20 turns or more
};

constexpr int kTileColumns = 128, kThreads = 256;
constexpr int kRowsAtOnce = 8;  // of a thread that has one column

struct Quad {
  float v[4];
};
DEVICE Quad load_quad(const float* p) {
  const float4 q = *(const float4*)p;
  return {{q.x, q.y, q.z, q.w}};
}

// The values of a column for all rows of a tile, whatever its phases: use(row of the tile, parts). A thread has one column,
// and takes eight rows at a time.
template <class Use>
DEVICE void visit_column(const DenseWork& work, int tile, int column, const Use& use) {
  using W = far::Wave;
  const TileOfRows about = work.tiles[tile];
  const int64_t at = about.group * (int64_t)work.padded_group + column;
  const far::Floats shift = far::pack(work.dither[at]) * W::unit;
  for (int row = 0; row < about.count; row += kRowsAtOnce) {
    const float* own_rows = work.rows + (int64_t)tile * kTileRows + row;
    float phase[kRowsAtOnce];
    UNROLL for (int r = 0; r < kRowsAtOnce; r++) phase[r] = 0.0f;
    for (int64_t k = 0; k < work.n_features; k++) {
      const float w = work.frequencies[k * work.padded + at];
      const Quad low = load_quad(own_rows + k * work.stride), high = load_quad(own_rows + k * work.stride + 4);
      UNROLL for (int r = 0; r < kRowsAtOnce; r++) phase[r] = __fmaf_rn(r < 4 ? low.v[r % 4] : high.v[r % 4], w, phase[r]);
    }
    UNROLL for (int r = 0; r < kRowsAtOnce; r++) {
      if (row + r >= about.count) continue;
      far::Bits value[2] = {};
      W::eval(W::reduced({phase[r]}, shift), far::Addends(), work.given, value[0], value[1]);
      const int32_t parts[2] = {(int32_t)(value[0].v - W::bias), (int32_t)(value[1].v - W::bias)};
      use(row + r, parts);
    }
  }
}
