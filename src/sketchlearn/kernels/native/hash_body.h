// Hashes of rows and their distances from a center, several rows at a time. Included by kernel_body.h, after moments_body.h.
#if defined(SKETCHLEARN_AVX512) || defined(SKETCHLEARN_AVX2)
constexpr int kHashRows = 2 * kDoubles;  // each column waits for the one before: two vectors go side by side
#else
constexpr int kHashRows = 0;  // 64-bit products of vectors are slower there than those of one number after the other
#endif

// The same column of kDoubles rows.
template <class T>
inline Doubles column_of_rows(const T* x, int64_t s) {
#ifdef SKETCHLEARN_AVX512
  return Doubles{static_cast<double>(x[0]),     static_cast<double>(x[s]),     static_cast<double>(x[2 * s]),
                 static_cast<double>(x[3 * s]), static_cast<double>(x[4 * s]), static_cast<double>(x[5 * s]),
                 static_cast<double>(x[6 * s]), static_cast<double>(x[7 * s])};
#else
  Doubles values;
  for (int r = 0; r < kDoubles; r++) values[r] = static_cast<double>(x[r * s]);
  return values;
#endif
}

template <class T>
inline void hash_columns(const HashTile& tile) {
  Words hash[2] = {Words{} + tile.key, Words{} + tile.key};
  Doubles square[2]{};
  const T *x = static_cast<const T*>(tile.rows), *next = x + kHashRows * tile.row_stride;
  for (int64_t k = 0; k < tile.n_features; k++, x += tile.column_stride, next += kHashRows) {
    // rows that follow each other in memory are not read one after the other here: nobody else sees what comes next
    for (int ahead = 0; ahead < kHashRows; ahead += static_cast<int>(64 / sizeof(T))) __builtin_prefetch(next + ahead);
#pragma GCC unroll 2
    for (int v = 0; v < 2; v++) {
      const Doubles value = column_of_rows(x + v * kDoubles * tile.row_stride, tile.row_stride);
      const Doubles away = (value - tile.center[k]) * tile.scale[k];
      square[v] += away * away;
      hash[v] = (hash[v] ^ (Words)(value + 0.0)) * kHashFactor;  // -0 is +0
      hash[v] ^= hash[v] >> kHashShift;
    }
  }
  for (Words& h : hash) {
    for (const uint64_t factor : kHashEnds) h = (h ^ (h >> kHashEndShift)) * factor;
    h ^= h >> kHashEndShift;
  }
  __builtin_memcpy(tile.hashes, hash, sizeof hash);
  __builtin_memcpy(tile.squares, square, sizeof square);
}

SKETCHLEARN_HOT void hash_tile(const HashTile& tile) {
  tile.is_double ? hash_columns<double>(tile) : hash_columns<float>(tile);
}
