// Counts of the values of each column between edges.
#pragma once
#include <cstdint>
#include <vector>

#include "rows.h"

namespace sketchlearn {

// Edges of every column, ready for a search without branches. Of a column with n edges, a value counts at the number of
// edges that are not above it, 0 to n; the last edge itself counts as below, so that its bin holds it.
//
// Values fall into cells, which are even near the middle of the edges and ever wider away from it. A table tells how many
// edges lie in cells below: the search goes through those of the value's own cell. A cell's number never falls as a value
// grows, however it is rounded: so the table cannot be wrong.
class Bins {
 public:
  // The edges of column c are edges[starts[c] .. starts[c + 1]): ascending, finite, at least one.
  Bins(const double* edges, const int64_t* starts, int64_t n_features);

  // How many counts there are in all: one per edge and one more per column.
  int64_t n_counts() const { return n_counts_; }

  // Adds the weight of each row (1 without weights) to one count per column. Returns the first row with a value that is
  // not finite, or -1.
  int64_t add(const Rows& rows, const int64_t* weights, int n_threads, int64_t* counts) const;

  // Writes which of all counts each value of each row goes to: count * n_features numbers. Returns as `add` does.
  int64_t write(const Rows& rows, int n_threads, int32_t* out) const;

 private:
  class Worker;
  struct Column {
    int64_t edges;  // where its edges begin
    int64_t below;  // where its cells begin
    int64_t first;  // its first count
    int levels;     // of the search: no cell has more than 2^levels - 1 edges
    float middle, scale;
  };
  static int32_t cell_of(const Column& column, float value);

  std::vector<Column> columns_;
  std::vector<int64_t> double_edges_;  // as integers in the same order, followed by some that no value reaches
  std::vector<int32_t> float_edges_;   // the same for rows of float32: the least float32 that is not below each edge
  std::vector<uint16_t> below_;        // how many edges lie in cells below each cell
  int64_t n_counts_;
};

}  // namespace sketchlearn
