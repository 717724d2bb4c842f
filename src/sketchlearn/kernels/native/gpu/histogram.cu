// Counts of the values of each column between edges. A block counts in shared memory where there is room for all counts.
#include "device.h"
#include "rows_at_device.h"

struct CountWork {
  RowsAtDevice rows;
  const double* edges;     // ascending, those of a column at starts[column] .. starts[column + 1]
  const int64_t* starts;
  const int64_t* weights;  // of each row, or null
  int64_t* counts;
  unsigned long long* first_bad;
  int32_t n_counts;
};

constexpr int kBlock = 256, kSharedCounts = 8192;

// How many edges are not above x; the last one counts as above itself.
DEVICE int edges_below(const double* edges, int count, double x) {
  int low = 0, high = count;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (edges[middle] <= x)
      low = middle + 1;
    else
      high = middle;
  }
  return x == edges[count - 1] ? count - 1 : low;
}

KERNEL(kBlock, 1) count_values(const CountWork work) {
  SHARED uint32_t counts[kSharedCounts];
  const bool shared = work.n_counts <= kSharedCounts && !work.weights;
  for (int i = threadIdx.x; shared && i < work.n_counts; i += kBlock) counts[i] = 0;
  __syncthreads();
  for (int64_t row = blockIdx.x * (int64_t)kBlock + threadIdx.x; row < work.rows.count; row += gridDim.x * (int64_t)kBlock) {
    const int64_t weight = work.weights ? work.weights[row] : 1;
    for (int k = 0; k < work.rows.n_features; k++) {
      const double x = value_at(work.rows, row, k);
      if (isnan(x) || isinf(x)) {
        atomicMin(work.first_bad, (unsigned long long)row);
        continue;
      }
      const int64_t start = work.starts[k];
      const int64_t at = start + k + edges_below(work.edges + start, (int)(work.starts[k + 1] - start), x);
      if (shared)
        atomicAdd(&counts[at], 1u);
      else
        add_to(work.counts + at, weight);
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; shared && i < work.n_counts; i += kBlock)
    if (counts[i]) add_to(work.counts + i, counts[i]);
}
