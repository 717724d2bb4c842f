// The kernel for avx2.
#define SKETCHLEARN_AVX2
#include <immintrin.h>

#include "kernel.h"

namespace sketchlearn {
namespace {
#include "simd.h"
#include "addends.h"
#include "waves.h"
#include "quantized_waves.h"
#include "kernel_body.h"

constexpr Kernel kernel = make_kernel("avx2");
}  // namespace

const Kernel* avx2_kernel() { return &kernel; }

}  // namespace sketchlearn
