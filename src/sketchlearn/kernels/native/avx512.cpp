// The kernel for avx512.
#define SKETCHLEARN_AVX512
#include <immintrin.h>

#include "kernel.h"

namespace sketchlearn {
namespace {
#include "simd.h"
#include "addends.h"
#include "waves.h"
#include "quantized_waves.h"
#include "kernel_body.h"

constexpr Kernel kernel = make_kernel("avx512");
}  // namespace

const Kernel* avx512_kernel() { return &kernel; }

}  // namespace sketchlearn
