// Sums of the features of rows that centre.cu prepared. Compiled once for each wave.
//
// A phase is one chain of fused multiply-adds over the columns, in their order, as on a processor; the sums are integers, so
// that threads and blocks may add theirs in any order.
#include "wave_kernels.h"

namespace near {
#define SKETCHLEARN_NEAR
#include "lane.h"
#include "../waves.h"
#include "../quantized_waves.h"
#undef SKETCHLEARN_NEAR
using Wave = SKETCHLEARN_WAVE;
}  // namespace near

constexpr int kDepth = 16, kWarps = kThreads / 32;
constexpr int kOwnRows = 16, kOwnColumns = 4;  // of a thread of dense_near

// Whether all of a tile's rows are there, and its phases are small.
DEVICE bool is_near(const DenseWork& work, const TileOfRows& tile) {
  return tile.count == kTileRows && tile.largest <= work.limit;
}

DEVICE void store_quad(float* p, Quad q) { *(float4*)p = make_float4(q.v[0], q.v[1], q.v[2], q.v[3]); }

// One column of the rows times one row of the frequencies: a thread's own phases. All threads of a warp have the same rows,
// which are read once for all of them.
DEVICE void multiply_column(const float* rows, const float* columns, float (*phase)[kOwnColumns]) {
  Quad x[kOwnRows / 4];
  const Quad w = load_quad(columns);
  UNROLL for (int h = 0; h < kOwnRows / 4; h++) x[h] = load_quad(rows + 4 * h);
  UNROLL for (int r = 0; r < kOwnRows; r++)
    UNROLL for (int c = 0; c < kOwnColumns; c++) phase[r][c] = __fmaf_rn(x[r / 4].v[r % 4], w.v[c], phase[r][c]);
}

#if !defined(SKETCHLEARN_FAR_ONLY)
// Near tiles: a warp has 16 rows, a thread 4 columns of them, their phases in registers; the next columns of rows and
// frequencies are on their way while these are multiplied, and those of the next tile while the waves are computed. The sums
// of a block are in shared memory.
KERNEL(kThreads, 2) dense_near(const DenseWork work) {
  using W = near::Wave;
  SHARED float rows[2][kDepth][kTileRows], columns[2][kDepth][kTileColumns];
  SHARED int32_t sums[W::parts][kOwnColumns][kTileColumns / kOwnColumns];
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int first_tile = blockIdx.y * work.tiles_per_block;
  const int last_tile = min(first_tile + work.tiles_per_block, work.n_tiles);
  const int steps = (work.n_features + kDepth - 1) / kDepth;
  int group = -1;

  const auto flush = [&] {  // adds the block's sums to all, and starts anew
    __syncthreads();
    if (thread < kTileColumns) {
      const int column = blockIdx.x * kTileColumns + thread;
      for (int part = 0; part < W::parts; part++) {
        int32_t& sum = sums[part][thread % kOwnColumns][thread / kOwnColumns];
        if (group >= 0 && column < work.group_columns)
          add_to(work.sums + part * work.columns + group * (int64_t)work.group_columns + column, sum);
        sum = 0;
      }
    }
    __syncthreads();
  };

  const float *row_source, *column_source;
  const auto start = [&](int tile, int own_group) {  // where this thread's share of a tile's first columns is
    row_source = work.rows + warp * work.stride + (int64_t)tile * kTileRows + 4 * lane;
    column_source = work.frequencies + warp * work.padded + own_group * (int64_t)work.padded_group +
                    blockIdx.x * kTileColumns + 4 * lane;
  };
  Quad next_rows[kDepth / kWarps], next_columns[kDepth / kWarps];
  const auto load = [&](int step) {
    UNROLL for (int i = 0; i < kDepth / kWarps; i++) {
      if (step * kDepth + i * kWarps + warp >= work.n_features) break;
      next_rows[i] = load_quad(row_source), next_columns[i] = load_quad(column_source);
      row_source += kWarps * work.stride, column_source += kWarps * work.padded;
    }
  };
  const auto store = [&](int buffer) {
    UNROLL for (int i = 0; i < kDepth / kWarps; i++) {
      store_quad(&rows[buffer][i * kWarps + warp][4 * lane], next_rows[i]);
      store_quad(&columns[buffer][i * kWarps + warp][4 * lane], next_columns[i]);
    }
  };

  flush();
  int buffer = 0;
  TileOfRows about = work.tiles[first_tile];
  start(first_tile, about.group);
  load(0);
  store(0);
  __syncthreads();
  for (int tile = first_tile; tile < last_tile; tile++) {
    float phase[kOwnRows][kOwnColumns];
    UNROLL for (int r = 0; r < kOwnRows; r++) UNROLL for (int c = 0; c < kOwnColumns; c++) phase[r][c] = 0.0f;
    TileOfRows next = about;
    for (int step = 0; step < steps; step++) {
      const bool last = step + 1 == steps;
      if (!last) {
        load(step + 1);
      } else if (tile + 1 < last_tile) {
        next = work.tiles[tile + 1];
        start(tile + 1, next.group);
        load(0);
      }
      const float *own_rows = &rows[buffer][0][kOwnRows * warp], *own_columns = &columns[buffer][0][kOwnColumns * lane];
      const int depth = min(kDepth, work.n_features - step * kDepth);
      if (depth == kDepth)
        UNROLL for (int k = 0; k < kDepth; k++)
          multiply_column(own_rows + k * kTileRows, own_columns + k * kTileColumns, phase);
      else
        UNROLL_BY(4) for (int k = 0; k < depth; k++)
          multiply_column(own_rows + k * kTileRows, own_columns + k * kTileColumns, phase);
      if (last && is_near(work, about)) {
        if (about.group != group) {
          flush();
          group = about.group;
        }
        const float* dither =
            work.dither + group * (int64_t)work.padded_group + blockIdx.x * kTileColumns + kOwnColumns * lane;
        UNROLL for (int c = 0; c < kOwnColumns; c++) {
          const near::Floats shift = near::pack(dither[c]) * W::unit;
          near::Total<W> total;
          UNROLL for (int r = 0; r < kOwnRows; r++) total.add(W::reduced({phase[r][c]}, shift), work.given);
          int32_t own[W::parts][1];
          total.finish(kOwnRows, own);
          UNROLL for (int part = 0; part < W::parts; part++) atomicAdd(&sums[part][c][lane], own[part][0]);
        }
      }
      buffer ^= 1;
      store(buffer);
      __syncthreads();
    }
    about = next;
  }
  flush();
}
#endif

// One tile that is not near, or whose rows have weights.
DEVICE void take_far(const DenseWork& work, int tile, int column) {
  using W = far::Wave;
  if (column >= work.group_columns) return;
  int64_t sums[2] = {0, 0};
  visit_column(work, tile, column, [&](int row, const int32_t* parts) {
    const int64_t weight = work.weights ? work.weights[(int64_t)tile * kTileRows + row] : 1;
    UNROLL for (int part = 0; part < W::parts; part++) sums[part] += weight * parts[part];
  });
  const int64_t first = work.tiles[tile].group * (int64_t)work.group_columns + column;
  UNROLL for (int part = 0; part < W::parts; part++) add_to(work.sums + part * work.columns + first, sums[part]);
}

// The tiles that dense_near leaves, found as many at a time as a block has threads.
KERNEL(kTileColumns, 1) dense_far(const DenseWork work) {
  SHARED int found[kTileColumns], n_found;
  const int column = blockIdx.x * kTileColumns + threadIdx.x;
  for (int first = blockIdx.y * kTileColumns; first < work.n_tiles; first += gridDim.y * kTileColumns) {
    if (threadIdx.x == 0) n_found = 0;
    __syncthreads();
    const int tile = first + threadIdx.x;
    if (tile < work.n_tiles && (work.weights || !is_near(work, work.tiles[tile]))) found[atomicAdd(&n_found, 1)] = tile;
    __syncthreads();
    for (int i = 0; i < n_found; i++) take_far(work, found[i], column);
    __syncthreads();
  }
}
