// Hashes of rows and their distances from a center, several rows at a time. Included by kernel_body.h, after moments_body.h.
#if defined(SKETCHLEARN_AVX512) || defined(SKETCHLEARN_AVX2)
constexpr int kHashRows = 2 * kDoubles;  // each column waits for the one before: two vectors go side by side
#else
constexpr int kHashRows = 0;  // 64-bit products of vectors are slower there than those of one number after the other
#endif

SKETCHLEARN_HOT void hash_tile(const HashTile& tile) {
  Words hash[2] = {Words{} + tile.key, Words{} + tile.key};
  Doubles square[2]{};
  const double* x = tile.rows;
  for (int64_t k = 0; k < tile.n_features; k++, x += 2 * kDoubles)
#pragma GCC unroll 2
    for (int v = 0; v < 2; v++) {
      const Doubles value = load_doubles(x + v * kDoubles), away = (value - tile.center[k]) * tile.scale[k];
      square[v] += away * away;
      hash[v] = (hash[v] ^ (Words)(value + 0.0)) * kHashFactor;  // -0 is +0
      hash[v] ^= hash[v] >> kHashShift;
    }
  __builtin_memcpy(tile.hashes, hash, sizeof hash);
  __builtin_memcpy(tile.squares, square, sizeof square);
}
