// The features of rows that centre.cu prepared, themselves. Compiled once for each wave.
#include "wave_kernels.h"

// Rows have one group of frequencies.
KERNEL(kTileColumns, 1) write_features(const DenseWork work) {
  using W = far::Wave;
  const int column = blockIdx.x * kTileColumns + threadIdx.x;
  if (column >= work.group_columns) return;
  for (int tile = blockIdx.y; tile < work.n_tiles; tile += gridDim.y)
    visit_column(work, tile, column, [&](int row, const int32_t* parts) {
      int32_t* out = work.integers + ((int64_t)tile * kTileRows + row) * W::parts * work.group_columns + column;
      UNROLL for (int part = 0; part < W::parts; part++) out[(int64_t)part * work.group_columns] = parts[part];
    });
}
