// Sums of the features of structured frequencies, of rows that centre.cu prepared. Compiled once for each wave.
#include "wave_kernels.h"

struct StructuredWork {
  const float* rows;  // as those of DenseWork
  const TileOfRows* tiles;
  const float* signs;  // [block][3][size]
  const float* radii;  // [block][size], in turns
  const float* dither; // [block][size]
  const int64_t* weights;
  int64_t* sums;
  Coefficients given;
  int64_t stride, columns;
  int32_t n_features, n_tiles, tiles_per_block, group_columns, size;  // at most kFlat
};

constexpr int kFlat = 4096;  // numbers that are transformed together: rows of `size` of them, one after the other

// Walsh-Hadamard transforms of rows that lie one after the other: stages 1, 2, 4, ..., each pair (a, b) becoming
// (a + b, a - b).
DEVICE void transform_rows(float* y, int size) {
  for (int h = 1; h < size; h *= 2) {
    __syncthreads();
    for (int pair = threadIdx.x; pair < kFlat / 2; pair += kThreads) {
      const int i = 2 * pair - pair % h;
      const float a = y[i], b = y[i + h];
      y[i] = __fadd_rn(a, b), y[i + h] = __fadd_rn(a, -b);
    }
  }
  __syncthreads();
}

// One block of structured frequencies, for some tiles: rows are transformed as many at a time as there is room for.
KERNEL(kThreads, 1) structured_sums(const StructuredWork work) {
  using W = far::Wave;
  SHARED float y[kFlat];
  SHARED int32_t sums[W::parts][kFlat];
  const int thread = threadIdx.x, size = work.size, together = kFlat / size;
  const int first_column = blockIdx.x * size, width = min(size, work.group_columns - first_column);
  const int first_tile = blockIdx.y * work.tiles_per_block;
  const int last_tile = min(first_tile + work.tiles_per_block, work.n_tiles);
  int group = -1;

  const auto flush = [&] {  // adds the block's sums to all, and starts anew
    __syncthreads();
    for (int c = thread; c < size; c += kThreads)
      for (int part = 0; part < W::parts; part++) {
        if (group >= 0 && c < width && sums[part][c])
          add_to(work.sums + part * work.columns + group * (int64_t)work.group_columns + first_column + c, sums[part][c]);
        sums[part][c] = 0;
      }
    __syncthreads();
  };

  flush();
  for (int tile = first_tile; tile < last_tile; tile++) {
    const TileOfRows about = work.tiles[tile];
    if (about.group != group && about.count) {
      flush();
      group = about.group;
    }
    // a group's frequencies fill whole blocks, unless there is one group
    const int64_t at = group * (int64_t)work.group_columns + first_column;
    const float *signs = work.signs + 3 * at, *radii = work.radii + at, *dither = work.dither + at;
    for (int first = 0; first < about.count; first += together) {
      const float* own = work.rows + (int64_t)tile * kTileRows + first;
      for (int i = thread; i < kFlat; i += kThreads) {
        const int row = i / size, k = i - row * size;
        const bool there = k < work.n_features && first + row < about.count;
        y[i] = there ? __fmul_rn(own[k * work.stride + row], signs[k]) : 0.0f;
      }
      transform_rows(y, size);
      for (int turn = 1; turn < 3; turn++) {
        for (int i = thread; i < kFlat; i += kThreads) y[i] = __fmul_rn(y[i], signs[turn * size + i % size]);
        transform_rows(y, size);
      }
      for (int i = thread; i < kFlat; i += kThreads) {
        const int row = i / size, c = i - row * size;
        if (c >= width || first + row >= about.count) continue;
        far::Bits value[2] = {};
        const far::Floats shift = far::pack(dither[c]) * W::unit;
        W::eval(W::reduced({__fmul_rn(y[i], radii[c])}, shift), far::Addends(), work.given, value[0], value[1]);
        UNROLL for (int part = 0; part < W::parts; part++) {
          const int32_t integer = (int32_t)(value[part].v - W::bias);
          if (work.weights)
            add_to(work.sums + part * work.columns + at + c,
                   work.weights[(int64_t)tile * kTileRows + first + row] * integer);
          else
            atomicAdd(&sums[part][c], integer);
        }
      }
      __syncthreads();
    }
  }
  flush();
}
