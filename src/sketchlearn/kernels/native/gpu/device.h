// What the kernels of a GPU start from. NVRTC compiles them, without any header of its own; so does a compiler for
// processors, with tests/native/gpu_processor.h included first, which says what a block of threads is there.
#if defined(__CUDACC__)
#if defined(__CUDACC_RTC__)
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#else
#include <cstdint>
#endif
#define DEVICE __device__ __forceinline__
#define SHARED __shared__
#define KERNEL(threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks)
#define TEXT(text) #text
#define UNROLL _Pragma("unroll")
#define UNROLL_BY(n) _Pragma(TEXT(unroll n))
#endif

DEVICE void add_to(int64_t* sum, int64_t value) { atomicAdd((unsigned long long*)sum, (unsigned long long)value); }

constexpr int kTileRows = 128;  // rows that go through the frequencies together

// What a tile of rows needs: its rows' group of frequencies, and how many rows it has.
struct TileOfRows {
  int32_t group, count;
  float largest;   // the largest size of any centred value
  int32_t padding;
};
