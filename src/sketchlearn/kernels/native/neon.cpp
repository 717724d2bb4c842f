// The kernel for neon.
#define SKETCHLEARN_NEON
#include <arm_neon.h>

#include "kernel.h"

namespace sketchlearn {
namespace {
#include "simd.h"
#include "addends.h"
#include "waves.h"
#include "quantized_waves.h"
#include "kernel_body.h"

constexpr Kernel kernel = make_kernel("neon");
}  // namespace

const Kernel* neon_kernel() { return &kernel; }

}  // namespace sketchlearn
