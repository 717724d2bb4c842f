// Hashes of rows and their distances from a center, several rows at a time. Included by kernel_body.h, after moments_body.h.
#if defined(SKETCHLEARN_AVX512) || defined(SKETCHLEARN_AVX2)
constexpr int kHashRows = kDoubles;
#else
constexpr int kHashRows = 0;  // 64-bit products of vectors are slower there than those of one number after the other
#endif

SKETCHLEARN_HOT void hash_tile(const HashTile& tile) {
  Words hash = Words{} + tile.key;
  Doubles square{};
  const double* x = tile.rows;
  for (int64_t k = 0; k < tile.n_features; k++, x += kDoubles) {
    const Doubles value = load_doubles(x), away = (value - tile.center[k]) * tile.scale[k];
    square += away * away;
    hash = (hash ^ (Words)(value + 0.0)) * kHashFactor;  // -0 is +0
    hash ^= hash >> kHashShift;
  }
  __builtin_memcpy(tile.hashes, &hash, sizeof hash);
  __builtin_memcpy(tile.squares, &square, sizeof square);
}
