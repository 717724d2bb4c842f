// Sums of the features of rows that centre.cu prepared: SKETCHLEARN_WAVE says which. Compiled once for each wave.
//
// A phase is one chain of fused multiply-adds over the columns, in their order, as on a processor; the sums are integers, so
// that threads and blocks may add theirs in any order.
#include "device.h"
#include "../wave_numbers.h"

// Fourier coefficients of a wave given by them; see kernel.h.
struct Coefficients {
  const float* values;
  int64_t harmonics;
};

namespace near {
#define SKETCHLEARN_NEAR
#include "lane.h"
#include "../waves.h"
#undef SKETCHLEARN_NEAR
using Wave = SKETCHLEARN_WAVE;
}  // namespace near

namespace far {
#include "lane.h"
#include "../waves.h"
using Wave = SKETCHLEARN_WAVE;
}  // namespace far

struct DenseWork {
  const float* rows;  // [column][stride], centred; zeros beyond a tile's rows
  const TileOfRows* tiles;
  const float* frequencies;  // [column][padded], in turns, each group's at a multiple of kTileColumns
  const float* dither;       // [padded]
  const int64_t* weights;    // of each row, or null
  int64_t* sums;             // [part][columns]
  Coefficients given;
  int64_t stride, padded, columns;
  int32_t n_features, n_tiles, tiles_per_block, group_columns, padded_group;  // at most 15 tiles: 32 bits hold their sums
  float limit;  // tiles with values beyond it may have phases of 2^20 turns or more
};

constexpr int kTileColumns = 128, kThreads = 256, kDepth = 8, kOwn = 8;

// Whether all of a tile's rows are there, and its phases are small.
DEVICE bool is_near(const DenseWork& work, const TileOfRows& tile) {
  return tile.count == kTileRows && tile.largest <= work.limit;
}

struct Quad {
  float v[4];
};
DEVICE Quad load_quad(const float* p) {
  const float4 q = *(const float4*)p;
  return {{q.x, q.y, q.z, q.w}};
}
DEVICE void store_quad(float* p, Quad q) { *(float4*)p = make_float4(q.v[0], q.v[1], q.v[2], q.v[3]); }

// A thread's own 8 x 8 phases of a tile: rows 4 y .. 4 y + 3 and 64 more, columns likewise.
DEVICE void multiply_column(const float* rows, const float* columns, float (*phase)[kOwn]) {
  Quad x[2], w[2];
  UNROLL for (int h = 0; h < 2; h++) x[h] = load_quad(rows + 64 * h), w[h] = load_quad(columns + 64 * h);
  UNROLL for (int r = 0; r < kOwn; r++)
    UNROLL for (int c = 0; c < kOwn; c++) phase[r][c] = __fmaf_rn(x[r / 4].v[r % 4], w[c / 4].v[c % 4], phase[r][c]);
}

#if !defined(SKETCHLEARN_FAR_ONLY)
// Near tiles: threads of 16 x 16, each with 8 x 8 phases in registers; the next columns of rows and frequencies are on their
// way while these are multiplied. The sums of a block are in shared memory, which leaves the registers to the phases.
KERNEL(kThreads, 2) dense_near(const DenseWork work) {
  using W = near::Wave;
  SHARED float rows[2][kDepth][kTileRows], columns[2][kDepth][kTileColumns];
  SHARED int32_t sums[W::parts][kTileColumns];
  const int thread = threadIdx.x, x = thread % 16, y = thread / 16;
  const int first_tile = blockIdx.y * work.tiles_per_block;
  const int last_tile = min(first_tile + work.tiles_per_block, work.n_tiles);
  const int depth_of_load = thread / 32, at_of_load = thread % 32 * 4;
  const int steps = (work.n_features + kDepth - 1) / kDepth;
  int group = -1;

  const auto flush = [&] {  // adds the block's sums to all, and starts anew
    __syncthreads();
    const int column = blockIdx.x * kTileColumns + thread;
    if (thread < kTileColumns)
      for (int part = 0; part < W::parts; part++) {
        if (group >= 0 && column < work.group_columns)
          add_to(work.sums + part * work.columns + group * (int64_t)work.group_columns + column, sums[part][thread]);
        sums[part][thread] = 0;
      }
    __syncthreads();
  };

  for (int tile = first_tile; tile < last_tile; tile++) {
    const TileOfRows about = work.tiles[tile];
    if (!is_near(work, about)) continue;
    if (about.group != group) {
      flush();
      group = about.group;
    }
    const int64_t own_group = group * (int64_t)work.padded_group + blockIdx.x * kTileColumns;
    const float* own_rows = work.rows + (int64_t)tile * kTileRows + depth_of_load * work.stride + at_of_load;
    const float* own_columns = work.frequencies + own_group + depth_of_load * work.padded + at_of_load;
    Quad next_row, next_column;
    const auto load = [&](int step) {
      next_row = next_column = {};
      if (step * kDepth + depth_of_load < work.n_features) {
        next_row = load_quad(own_rows), next_column = load_quad(own_columns);
        own_rows += kDepth * work.stride, own_columns += kDepth * work.padded;
      }
    };
    const auto store = [&](int step) {
      store_quad(&rows[step % 2][depth_of_load][at_of_load], next_row);
      store_quad(&columns[step % 2][depth_of_load][at_of_load], next_column);
    };
    float phase[kOwn][kOwn];
    UNROLL for (int r = 0; r < kOwn; r++) UNROLL for (int c = 0; c < kOwn; c++) phase[r][c] = 0.0f;
    load(0);
    store(0);
    __syncthreads();
    for (int step = 0; step < steps; step++) {
      if (step + 1 < steps) load(step + 1);
      const float *own_x = &rows[step % 2][0][4 * y], *own_w = &columns[step % 2][0][4 * x];
      const int depth = min(kDepth, work.n_features - step * kDepth);
      if (depth == kDepth)
        UNROLL for (int k = 0; k < kDepth; k++) multiply_column(own_x + k * kTileRows, own_w + k * kTileColumns, phase);
      else
        for (int k = 0; k < depth; k++) multiply_column(own_x + k * kTileRows, own_w + k * kTileColumns, phase);
      if (step + 1 < steps) store(step + 1);
      __syncthreads();
    }
    UNROLL for (int c = 0; c < kOwn; c++) {
      const int column = c / 4 * 64 + 4 * x + c % 4;
      const near::Floats shift = near::pack(work.dither[own_group + column]) * W::unit;
      near::Total<W> total;
      UNROLL for (int r = 0; r < kOwn; r++) total.add(W::reduced({phase[r][c]}, shift), work.given);
      int32_t own[W::parts][1];
      total.finish(kOwn, own);
      UNROLL for (int part = 0; part < W::parts; part++) atomicAdd(&sums[part][column], own[part][0]);
    }
  }
  flush();
}
#endif

// All other tiles, and rows with weights: a thread has one column, and takes eight rows at a time.
KERNEL(kTileColumns, 1) dense_far(const DenseWork work) {
  using W = far::Wave;
  const int column = blockIdx.x * kTileColumns + threadIdx.x;
  for (int tile = blockIdx.y; tile < work.n_tiles; tile += gridDim.y) {
    const TileOfRows about = work.tiles[tile];
    if (column >= work.group_columns || (!work.weights && is_near(work, about))) continue;
    const int64_t at = about.group * (int64_t)work.padded_group + column;
    const far::Floats shift = far::pack(work.dither[at]) * W::unit;
    int64_t sums[2] = {0, 0};
    for (int row = 0; row < about.count; row += kOwn) {
      const float* own_rows = work.rows + (int64_t)tile * kTileRows + row;
      float phase[kOwn];
      UNROLL for (int r = 0; r < kOwn; r++) phase[r] = 0.0f;
      for (int64_t k = 0; k < work.n_features; k++) {
        const float w = work.frequencies[k * work.padded + at];
        const Quad low = load_quad(own_rows + k * work.stride), high = load_quad(own_rows + k * work.stride + 4);
        UNROLL for (int r = 0; r < kOwn; r++) phase[r] = __fmaf_rn(r < 4 ? low.v[r % 4] : high.v[r % 4], w, phase[r]);
      }
      UNROLL for (int r = 0; r < kOwn; r++) {
        if (row + r >= about.count) continue;
        far::Bits value[2] = {};
        W::eval(W::reduced({phase[r]}, shift), far::Addends(), work.given, value[0], value[1]);
        const int64_t weight = work.weights ? work.weights[(int64_t)tile * kTileRows + row + r] : 1;
        UNROLL for (int part = 0; part < W::parts; part++)
          sums[part] += weight * (int32_t)(value[part].v - W::bias);
      }
    }
    UNROLL for (int part = 0; part < W::parts; part++)
      add_to(work.sums + part * work.columns + about.group * (int64_t)work.group_columns + column, sums[part]);
  }
}
