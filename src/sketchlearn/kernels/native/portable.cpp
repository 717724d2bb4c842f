// The kernel for portable C++: fused multiply-adds by fmaf, whatever the machine.
#include "kernel.h"

namespace sketchlearn {
namespace {
#include "simd.h"
#include "addends.h"
#include "waves.h"
#include "quantized_waves.h"
#include "kernel_body.h"

constexpr Kernel kernel = make_kernel("portable");
}  // namespace

const Kernel* portable_kernel() { return &kernel; }

}  // namespace sketchlearn
