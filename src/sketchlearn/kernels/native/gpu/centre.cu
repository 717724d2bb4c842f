// Rows as they lie in memory become centred float32 columns, cut into tiles by the group of frequencies that a row's hash
// gives it.
#include "device.h"
#include "rows_at_device.h"

constexpr int kBlock = 256, kColumnsAtOnce = 16;
constexpr int kEach = kColumnsAtOnce * kTileRows / kBlock, kRowsApart = kBlock / kColumnsAtOnce;  // of a thread's values
constexpr float kLimit = 1152921504606846976.0f;  // 2^60; see rows.h

struct CentreWork {
  RowsAtDevice rows;
  const float* center;
  double square;        // of the largest distance from the center; infinity: any
  float* centred;       // [column][stride]
  TileOfRows* tiles;
  int32_t* groups;      // of each row, or null
  int64_t* places;      // where each row goes, or null: where it stands
  int64_t* starts;      // [group]: where the next row of a group goes
  const int64_t* weights;
  int64_t* placed_weights;
  unsigned long long* first_bad;
  uint64_t key;
  int64_t stride;
  int32_t n_groups, columns_per_block;  // as many as there are, or a multiple of kColumnsAtOnce
};

// x - center in the row's own precision, then in float32; false if it is too far away, or no number.
DEVICE bool centre(const RowsAtDevice& rows, int64_t row, int k, float center, float* out) {
  float away;
  if (rows.kind == kFloat64) {
    const double v = __dadd_rn(double_at(rows, row, k), -(double)center);
    away = fabs(v) < 2.0 * kLimit ? __double2float_rn(v) : 2.0f * kLimit;  // and so for NaN
  } else {
    away = __fadd_rn(single_at(rows, row, k), -center);
  }
  *out = away;
  return fabsf(away) <= kLimit;
}

// Rows of one block that go to each group: counted in shared memory where the groups are few enough, so that a block adds to
// a group's count once.
constexpr int kCounted = 1024, kRowsPerThread = 4;

DEVICE int32_t group_of(const CentreWork& work, int64_t row) {  // a hash of its centred values (with -0 as +0)
  uint64_t hash = work.key;
  for (int k = 0; k < work.rows.n_features; k++) {
    float value;
    centre(work.rows, row, k, work.center[k], &value);
    hash = (hash ^ __float_as_uint(__fadd_rn(value, 0.0f))) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 32;
  }
  return (int32_t)(((hash & 0xffffffffull) * (uint64_t)work.n_groups) >> 32);
}

// The group of each row; and how many rows each group has, in starts.
KERNEL(kBlock, 1) find_groups(const CentreWork work) {
  SHARED int32_t counts[kCounted];
  const bool counted = work.n_groups <= kCounted;
  for (int g = threadIdx.x; counted && g < work.n_groups; g += kBlock) counts[g] = 0;
  __syncthreads();
  for (int i = 0; i < kRowsPerThread; i++) {
    const int64_t row = (blockIdx.x * (int64_t)kRowsPerThread + i) * kBlock + threadIdx.x;
    if (row >= work.rows.count) break;
    const int32_t group = work.groups[row] = group_of(work, row);
    if (counted)
      atomicAdd(&counts[group], 1);
    else
      add_to(work.starts + group, 1);
  }
  __syncthreads();
  for (int g = threadIdx.x; counted && g < work.n_groups; g += kBlock)
    if (counts[g]) add_to(work.starts + g, counts[g]);
}

// From the rows of each group to where its first one goes, at the start of a tile; and the tiles. One block.
KERNEL(256, 1) place_groups(const CentreWork work) {
  SHARED int64_t before[256];
  const int each = (work.n_groups + 255) / 256, first = threadIdx.x * each;
  const int last = min(first + each, work.n_groups);
  int64_t own = 0;
  for (int g = first; g < last; g++) own += (work.starts[g] + kTileRows - 1) / kTileRows;
  before[threadIdx.x] = own;
  __syncthreads();
  int64_t tile = 0;
  for (int t = 0; t < (int)threadIdx.x; t++) tile += before[t];
  for (int g = first; g < last; g++) {
    const int64_t count = work.starts[g];
    work.starts[g] = tile * kTileRows;
    for (int64_t done = 0; done < count; done += kTileRows, tile++) {
      work.tiles[tile].group = g;
      work.tiles[tile].count = (int32_t)min(count - done, (int64_t)kTileRows);
    }
  }
}

// Where each row goes: behind those of its group that came before.
KERNEL(kBlock, 1) place_rows(const CentreWork work) {
  SHARED int32_t counts[kCounted];
  SHARED int64_t firsts[kCounted];
  const bool counted = work.n_groups <= kCounted;
  for (int g = threadIdx.x; counted && g < work.n_groups; g += kBlock) counts[g] = 0;
  __syncthreads();
  int32_t groups[kRowsPerThread], ranks[kRowsPerThread];
  for (int i = 0; i < kRowsPerThread; i++) {
    const int64_t row = (blockIdx.x * (int64_t)kRowsPerThread + i) * kBlock + threadIdx.x;
    if (row >= work.rows.count) break;
    groups[i] = work.groups[row];
    if (counted)
      ranks[i] = atomicAdd(&counts[groups[i]], 1);
    else
      work.places[row] = (int64_t)atomicAdd((unsigned long long*)(work.starts + groups[i]), 1ull);
  }
  __syncthreads();
  for (int g = threadIdx.x; counted && g < work.n_groups; g += kBlock)
    if (counts[g])
      firsts[g] = (int64_t)atomicAdd((unsigned long long*)(work.starts + g), (unsigned long long)counts[g]);
  __syncthreads();
  for (int i = 0; counted && i < kRowsPerThread; i++) {
    const int64_t row = (blockIdx.x * (int64_t)kRowsPerThread + i) * kBlock + threadIdx.x;
    if (row < work.rows.count) work.places[row] = firsts[groups[i]] + ranks[i];
  }
}

// Centred values of a tile's worth of rows, some columns at a time: read along the rows, written along the columns. The tiles
// are zero before.
KERNEL(kBlock, 1) centre_rows(const CentreWork work) {
  SHARED float values[kColumnsAtOnce][kTileRows + 1];
  SHARED uint32_t largest[kTileRows];  // floats that are not negative are in the order of their bits
  const int64_t first = blockIdx.x * (int64_t)kTileRows;
  const int n_rows = (int)min((int64_t)kTileRows, work.rows.count - first), thread = threadIdx.x;
  const int own = thread % kTileRows, half = thread / kTileRows;
  const int64_t place = own >= n_rows ? -1 : work.places ? work.places[first + own] : first + own;
  const bool bounded = !isinf(work.square);
  if (half == 0) largest[own] = 0;
  const bool plain = work.rows.kind == kFloat32 && work.rows.column_stride == 1;  // known at once where all lie
  double square = 0.0;
  float own_largest = 0.0f;
  const int first_column = blockIdx.y * work.columns_per_block;
  const int last_column = min(first_column + work.columns_per_block, work.rows.n_features);
  for (int from = first_column; from < last_column; from += kColumnsAtOnce) {
    const int n_columns = min(kColumnsAtOnce, last_column - from);
    if (plain && n_columns == kColumnsAtOnce && n_rows == kTileRows) {
      const int k = thread % kColumnsAtOnce, row = thread / kColumnsAtOnce;
      const float* x = (const float*)work.rows.data + (first + row) * work.rows.row_stride + from + k;
      const float center = work.center[from + k];
      float found[kEach];
      UNROLL for (int i = 0; i < kEach; i++) found[i] = x[i * kRowsApart * work.rows.row_stride];
      UNROLL for (int i = 0; i < kEach; i++) {
        const float away = __fadd_rn(found[i], -center);
        values[k][row + i * kRowsApart] = fabsf(away) <= kLimit ? away : 2.0f * kLimit;
      }
    } else {
      UNROLL for (int i = 0; i < kEach; i++) {
        const int at = thread + i * kBlock;
        const int row = n_columns == kColumnsAtOnce ? at / kColumnsAtOnce : at / n_columns, k = at - row * n_columns;
        if (row >= n_rows) continue;
        float value;
        if (!centre(work.rows, first + row, from + k, work.center[from + k], &value)) value = 2.0f * kLimit;
        values[k][row] = value;
      }
    }
    __syncthreads();
    if (place >= 0)
      for (int k = half; k < n_columns; k += kBlock / kTileRows) {
        const float value = values[k][own];
        work.centred[(from + k) * work.stride + place] = value;
        own_largest = fmaxf(own_largest, fabsf(value));
      }
    if (half == 0 && place >= 0 && bounded)  // in the order of the columns
      for (int k = 0; k < n_columns; k++)
        square = __dadd_rn(square, __dmul_rn((double)values[k][own], (double)values[k][own]));
    __syncthreads();
  }
  if (place >= 0) atomicMax(&largest[own], __float_as_uint(own_largest));
  __syncthreads();
  if (half > 0) return;
  if (place >= 0) {
    if (__uint_as_float(largest[own]) > kLimit || (bounded && square > work.square))
      atomicMin(work.first_bad, (unsigned long long)(first + own));
    if (work.weights && blockIdx.y == 0) work.placed_weights[place] = work.weights[first + own];
    if (work.places) atomicMax((uint32_t*)&work.tiles[place / kTileRows].largest, largest[own]);
  }
  if (thread > 0 || work.places) return;
  uint32_t most = 0;  // of rows that stay where they stand, all of one tile
  for (int r = 0; r < n_rows; r++) most = most < largest[r] ? largest[r] : most;
  if (blockIdx.y == 0) work.tiles[blockIdx.x].count = n_rows;
  atomicMax((uint32_t*)&work.tiles[blockIdx.x].largest, most);
}
