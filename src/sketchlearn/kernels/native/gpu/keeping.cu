// Rows that may be kept beside a sketch: those of a priority below a limit (docs/reference/arithmetic.md), found here
// and judged by the processor once more, which then has only them to look at.
#include "device.h"
#include "rows_at_device.h"

struct KeepWork {
  RowsAtDevice rows;
  const double *center, *scale;
  const uint64_t* certain;  // ascending
  int64_t* found;           // numbers of rows, in no order
  int64_t* n_found;         // may be more than there is room for
  double* gathered;         // [found][column]
  uint64_t key;
  double below;
  int64_t room;
  int32_t n_certain;
};

DEVICE bool is_certain(const KeepWork& work, uint64_t hash) {
  int low = 0, high = work.n_certain;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (work.certain[middle] < hash)
      low = middle + 1;
    else
      high = middle;
  }
  return low < work.n_certain && work.certain[low] == hash;
}

KERNEL(256, 1) find_candidates(const KeepWork work) {
  const int64_t row = blockIdx.x * (int64_t)256 + threadIdx.x;
  if (row >= work.rows.count) return;
  uint64_t hash = work.key;
  double square = 0.0;
  for (int k = 0; k < work.rows.n_features; k++) {
    const double x = value_at(work.rows, row, k);
    const double away = __dmul_rn(__dadd_rn(x, -work.center[k]), work.scale[k]);
    square = __dadd_rn(square, __dmul_rn(away, away));
    hash = (hash ^ (uint64_t)__double_as_longlong(__dadd_rn(x, 0.0))) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 29;
  }
  hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccdull;
  hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53ull;
  hash ^= hash >> 33;
  const double u = __dmul_rn(__dadd_rn((double)(hash >> 11), 0.5), 0x1p-53);
  const double chance = __dmul_rn(0.5, __dadd_rn(1.0, square));
  const double priority = __ddiv_rn(u, chance < 0x1p500 ? chance : 0x1p500);
  if (!(priority < work.below) && !is_certain(work, hash)) return;
  const int64_t at = (int64_t)atomicAdd((unsigned long long*)work.n_found, 1ull);
  if (at < work.room) work.found[at] = row;
}

KERNEL(256, 1) gather_rows(const KeepWork work) {
  const int64_t at = blockIdx.x * (int64_t)256 + threadIdx.x;
  if (at >= work.room * work.rows.n_features) return;
  const int64_t row = work.found[at / work.rows.n_features];
  work.gathered[at] = value_at(work.rows, row, (int)(at % work.rows.n_features));
}
