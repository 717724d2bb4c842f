// Some columns of rows, side by side, as numbers of their own kind.
#include "device.h"
#include "rows_at_device.h"

struct ColumnsWork {
  RowsAtDevice rows;
  const int64_t* which;
  void* chosen;  // [row][which]
  int32_t n_chosen;
};

KERNEL(256, 1) choose_columns(const ColumnsWork work) {
  const int64_t at = blockIdx.x * (int64_t)256 + threadIdx.x;
  if (at >= work.rows.count * work.n_chosen) return;
  const int64_t row = at / work.n_chosen, k = work.which[at - row * work.n_chosen];
  const int64_t from = row * work.rows.row_stride + k * work.rows.column_stride;
  if (work.rows.kind == kFloat64)
    ((double*)work.chosen)[at] = ((const double*)work.rows.data)[from];
  else if (work.rows.kind == kFloat32)
    ((float*)work.chosen)[at] = ((const float*)work.rows.data)[from];
  else
    ((unsigned short*)work.chosen)[at] = ((const unsigned short*)work.rows.data)[from];
}
