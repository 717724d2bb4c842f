// Sums of rows by Voronoi cell: counts, squares and values of all columns.
#pragma once
#include <cstdint>

#include "kernel.h"
#include "rows.h"

namespace sketchlearn {

// How rows become numbers v, and which cell is a row's: the first with the least half less product of point, [n][d],
// and v.
struct Cells {
  const double* center;
  const float *scale, *points, *halves;
  int64_t count;
  bool refuse;  // rows beyond the bound, rather than move them onto it
};

// Adds rows to the sums of their cells, [cell][1 + 2 d]. Returns the first row that is refused, or -1; `clipped`: how many
// were moved onto the bound.
int64_t add_to_cells(const Kernel& kernel, const Rows& rows, const Cells& cells, const int64_t* weights, int n_threads,
                     int64_t* sums, int64_t* clipped);

// The cell of each row, of those that are not refused.
int64_t find_cells(const Kernel& kernel, const Rows& rows, const Cells& cells, int n_threads, int32_t* labels);

}  // namespace sketchlearn
