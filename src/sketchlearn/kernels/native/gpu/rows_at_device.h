// Rows as they lie in a GPU's memory, and their values.
enum Kind { kFloat16, kBfloat16, kFloat32, kFloat64 };

struct RowsAtDevice {
  const void* data;
  int64_t count, row_stride, column_stride;  // strides in elements
  int32_t n_features, kind;
};

DEVICE float half_to_float(uint32_t half) {  // exact: subnormal numbers by a product with a power of two
  const uint32_t sign = (half & 0x8000u) << 16, rest = (half & 0x7fffu) << 13;
  if (rest >= 0x0f800000u) return __uint_as_float(sign | rest | 0x7f800000u);  // infinite, or no number
  return __uint_as_float(sign | __float_as_uint(__fmul_rn(__uint_as_float(rest), 0x1p112f)));
}

// A value of rows that are not float64.
DEVICE float single_at(const RowsAtDevice& rows, int64_t row, int k) {
  const int64_t at = row * rows.row_stride + k * rows.column_stride;
  if (rows.kind == kFloat32) return ((const float*)rows.data)[at];
  const uint32_t word = ((const unsigned short*)rows.data)[at];
  return rows.kind == kFloat16 ? half_to_float(word) : __uint_as_float(word << 16);
}

DEVICE double double_at(const RowsAtDevice& rows, int64_t row, int k) {
  return ((const double*)rows.data)[row * rows.row_stride + k * rows.column_stride];
}

DEVICE double value_at(const RowsAtDevice& rows, int64_t row, int k) {
  return rows.kind == kFloat64 ? double_at(rows, row, k) : (double)single_at(rows, row, k);
}
