// The range of each column.
#pragma once
#include "rows.h"

namespace sketchlearn {

// Lowers `low` and raises `high` of each column to the values of all rows; no value is NaN.
void extremes(const Rows& rows, int n_threads, double* low, double* high);

}  // namespace sketchlearn
