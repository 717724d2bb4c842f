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
  int32_t n_features, n_tiles, tiles_per_block, group_columns, size;  // at most kLargest
};

constexpr int kLargest = 2048;
constexpr int kFlat = 4096;  // numbers that are transformed together: rows of `size` of them, one after the other

DEVICE int place(int i) { return i + i / 32; }  // so that numbers 32 apart are not in the same bank of shared memory

// Stages h, 2 h, ..., n h / 2 of the transforms: a thread has n numbers that are h apart at a time.
template <int n>
DEVICE void transform_stages(float* y, int h) {
  for (int set = threadIdx.x; set < kFlat / n; set += kThreads) {
    const int first = (set - set % h) * n + set % h;
    float v[n];
    UNROLL for (int j = 0; j < n; j++) v[j] = y[place(first + j * h)];
    UNROLL for (int apart = 1; apart < n; apart *= 2)
      UNROLL for (int j = 0; j < n; j++) {
        if (j & apart) continue;
        const float a = v[j], b = v[j + apart];
        v[j] = __fadd_rn(a, b), v[j + apart] = __fadd_rn(a, -b);
      }
    UNROLL for (int j = 0; j < n; j++) y[place(first + j * h)] = v[j];
  }
  __syncthreads();
}

// Walsh-Hadamard transforms of rows that lie one after the other: stages 1, 2, 4, ..., each pair (a, b) becoming
// (a + b, a - b).
DEVICE void transform_rows(float* y, int size) {
  __syncthreads();
  int h = 1;
  for (; 16 * h <= size; h *= 16) transform_stages<16>(y, h);
  if (8 * h == size) transform_stages<8>(y, h);
  if (4 * h == size) transform_stages<4>(y, h);
  if (2 * h == size) transform_stages<2>(y, h);
}

// One block of structured frequencies, for some tiles: rows are transformed as many at a time as there is room for.
KERNEL(kThreads, 1) structured_sums(const StructuredWork work) {
  using W = far::Wave;
  SHARED float y[kFlat + kFlat / 32];
  SHARED int32_t sums[W::parts][kLargest];
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
        y[place(i)] = there ? __fmul_rn(own[k * work.stride + row], signs[k]) : 0.0f;
      }
      transform_rows(y, size);
      for (int turn = 1; turn < 3; turn++) {
        for (int i = thread; i < kFlat; i += kThreads)
          y[place(i)] = __fmul_rn(y[place(i)], signs[turn * size + i % size]);
        transform_rows(y, size);
      }
      for (int i = thread; i < kFlat; i += kThreads) {
        const int row = i / size, c = i - row * size;
        if (c >= width || first + row >= about.count) continue;
        far::Bits value[2] = {};
        const far::Floats shift = far::pack(dither[c]) * W::unit;
        W::eval(W::reduced({__fmul_rn(y[place(i)], radii[c])}, shift), far::Addends(), work.given, value[0], value[1]);
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
