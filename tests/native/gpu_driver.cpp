// A driver like NVIDIA's whose card is the processor: the functions that sketchlearn calls, and the kernels' own source.
// tests/kernels/test_gpu.py builds it and names it in SKETCHLEARN_CUDA. SKETCHLEARN_TEST_DRIVER makes it fail on purpose.
#include "gpu_processor.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#define UNIT(name) gpu_##name
namespace UNIT(centre) {
#include "centre.cu"
}
namespace UNIT(cells) {
#include "cells.cu"
}
namespace UNIT(column_cells) {
#include "column_cells.cu"
}
namespace UNIT(columns) {
#include "columns.cu"
}
namespace UNIT(mixture) {
#include "mixture.cu"
}
namespace UNIT(cross) {
#include "cross.cu"
}
namespace UNIT(histogram) {
#include "histogram.cu"
}
namespace UNIT(moments) {
#include "moments.cu"
}
namespace UNIT(keeping) {
#include "keeping.cu"
}
#define SKETCHLEARN_WAVE Exponential<2>
namespace UNIT(exponential) {
#include "gpu_wave.h"
}
#undef SKETCHLEARN_WAVE
#define SKETCHLEARN_WAVE Exponential<1>
namespace UNIT(cosine) {
#include "gpu_wave.h"
}
#undef SKETCHLEARN_WAVE
#define SKETCHLEARN_WAVE Square<2>
namespace UNIT(square) {
#include "gpu_wave.h"
}
#undef SKETCHLEARN_WAVE
#define SKETCHLEARN_WAVE Square<1>
namespace UNIT(square_real) {
#include "gpu_wave.h"
}
#undef SKETCHLEARN_WAVE
#define SKETCHLEARN_WAVE Sawtooth<2>
namespace UNIT(sawtooth) {
#include "gpu_wave.h"
}
#undef SKETCHLEARN_WAVE
#define SKETCHLEARN_WAVE Sawtooth<1>
namespace UNIT(sawtooth_real) {
#include "gpu_wave.h"
}
#undef SKETCHLEARN_WAVE
#define SKETCHLEARN_WAVE Triangle<2>
namespace UNIT(triangle) {
#include "gpu_wave.h"
}
#undef SKETCHLEARN_WAVE
#define SKETCHLEARN_WAVE Triangle<1>
namespace UNIT(triangle_real) {
#include "gpu_wave.h"
}
#undef SKETCHLEARN_WAVE
#define SKETCHLEARN_WAVE Quantized<Exponential<2>>
namespace UNIT(quantized_cosine) {
#include "gpu_wave.h"
}
#undef SKETCHLEARN_WAVE
#define SKETCHLEARN_WAVE Quantized<Exponential<1>>
namespace UNIT(quantized_cosine_real) {
#include "gpu_wave.h"
}
#undef SKETCHLEARN_WAVE
#define SKETCHLEARN_WAVE Quantized<Sawtooth<2>>
namespace UNIT(quantized_sawtooth) {
#include "gpu_wave.h"
}
#undef SKETCHLEARN_WAVE
#define SKETCHLEARN_WAVE Quantized<Sawtooth<1>>
namespace UNIT(quantized_sawtooth_real) {
#include "gpu_wave.h"
}
#undef SKETCHLEARN_WAVE
#define SKETCHLEARN_WAVE Quadratic
namespace UNIT(quadratic) {
#include "gpu_wave.h"
}
#undef SKETCHLEARN_WAVE
#define SKETCHLEARN_FAR_ONLY
#define SKETCHLEARN_WAVE Series<2>
namespace UNIT(series) {
#include "gpu_wave.h"
}
#undef SKETCHLEARN_WAVE
#define SKETCHLEARN_WAVE Series<1>
namespace UNIT(series_real) {
#include "gpu_wave.h"
}

namespace {

const void* argument;  // of the kernel that runs
using Run = void (*)();
template <class Work, void (*kernel)(Work)>
void with_argument() { kernel(*static_cast<const Work*>(argument)); }

#define RUN(unit, kernel, Work) {#unit "/" #kernel, with_argument<const UNIT(unit)::Work, UNIT(unit)::kernel>}
#define DENSE(unit, kernel) \
  {#unit "/" #kernel, with_argument<const UNIT(unit)::dense::DenseWork, UNIT(unit)::dense::kernel>}
#define BOTH(unit) DENSE(unit, dense_near), DENSE(unit, dense_far)
#define SELDOM(unit)                                                                                                  \
  {#unit "_written/write_features",                                                                                   \
   with_argument<const UNIT(unit)::written::DenseWork, UNIT(unit)::written::write_features>},                         \
  {#unit "_structured/structured_sums",                                                                               \
   with_argument<const UNIT(unit)::structured::StructuredWork, UNIT(unit)::structured::structured_sums>}
const std::map<std::string, Run> kernels = {
    RUN(centre, find_groups, CentreWork), RUN(centre, place_groups, CentreWork), RUN(centre, place_rows, CentreWork),
    RUN(centre, centre_rows, CentreWork), RUN(keeping, find_candidates, KeepWork), RUN(keeping, gather_rows, KeepWork),
    RUN(histogram, count_values, CountWork), RUN(moments, add_moments, MomentsWork),
    BOTH(exponential), BOTH(cosine), BOTH(square), BOTH(square_real), BOTH(sawtooth), BOTH(sawtooth_real),
    BOTH(triangle), BOTH(triangle_real), BOTH(quadratic), BOTH(quantized_cosine), BOTH(quantized_cosine_real),
    BOTH(quantized_sawtooth), BOTH(quantized_sawtooth_real), DENSE(series, dense_far),
    DENSE(series_real, dense_far), RUN(cells, measure_rows, CellsWork), RUN(cells, place_rows, CellsWork),
    RUN(cells, find_cells, CellsWork), RUN(cells, add_cells, CellsWork), RUN(column_cells, find_column_cells, ColumnCellsWork),
    RUN(column_cells, add_column_cells, ColumnCellsWork), RUN(mixture, add_expected, MixtureWork), RUN(columns, choose_columns, ColumnsWork),
    RUN(cross, add_crosses, CrossWork), RUN(cross, pack_bits, CrossWork), RUN(cross, join_rows, CrossWork),
    SELDOM(exponential), SELDOM(cosine), SELDOM(square), SELDOM(square_real), SELDOM(sawtooth), SELDOM(sawtooth_real),
    SELDOM(triangle), SELDOM(triangle_real), SELDOM(series), SELDOM(series_real), SELDOM(quantized_cosine),
    SELDOM(quantized_cosine_real), SELDOM(quantized_sawtooth), SELDOM(quantized_sawtooth_real),
};

std::string wish() {  // how to fail
  const char* said = std::getenv("SKETCHLEARN_TEST_DRIVER");
  return said ? said : "";
}
size_t taken;  // bytes

}  // namespace

extern "C" {
int cuInit(unsigned) { return wish() == "damaged" ? 999 : 0; }
int cuDriverGetVersion(int* version) { return *version = wish() == "old" ? 11080 : 13000, 0; }
int cuGetErrorString(int, const char** text) { return *text = "unknown error", 0; }
int cuDeviceGetCount(int* count) { return *count = wish() == "none" ? 0 : 2, 0; }
int cuDeviceGet(int* device, int number) { return *device = number, 0; }
int cuDeviceGetName(char* name, int size, int) { return std::snprintf(name, size, "the processor"), 0; }
int cuDeviceGetAttribute(int* value, int, int) { return *value = 2, 0; }
int cuDevicePrimaryCtxRetain(void** context, int) { return *context = &taken, 0; }
int cuCtxPushCurrent_v2(void*) { return 0; }
int cuCtxPopCurrent_v2(void**) { return 0; }
int cuMemAlloc_v2(void** p, size_t size) {
  if (wish() == "full" && size > 100000) return 2;
  *p = std::malloc(size);
  std::memset(*p, 0x55, size);  // nobody may rely on zeros
  return 0;
}
int cuMemFree_v2(void* p) { return std::free(p), 0; }
int cuMemcpyHtoDAsync_v2(void* to, const void* from, size_t size, void*) { return std::memcpy(to, from, size), 0; }
int cuMemcpyDtoHAsync_v2(void* to, const void* from, size_t size, void*) { return std::memcpy(to, from, size), 0; }
int cuMemsetD8Async(void* to, unsigned char byte, size_t size, void*) { return std::memset(to, byte, size), 0; }
int cuStreamCreate(void** stream, unsigned) { return *stream = std::malloc(1), 0; }
int cuStreamDestroy_v2(void* stream) { return std::free(stream), 0; }
int cuStreamSynchronize(void*) { return 0; }
int cuCtxSynchronize() { return 0; }
int cuEventCreate(void** event, unsigned) { return *event = std::malloc(1), 0; }
int cuEventDestroy_v2(void* event) { return std::free(event), 0; }
int cuEventRecord(void*, void*) { return 0; }
int cuEventElapsedTime(float* milliseconds, void*, void*) { return *milliseconds = 1, 0; }
int cuModuleLoadData(void** module, const char* ptx) {  // the first line names the unit
  const std::string text = ptx;
  *module = new std::string(text.substr(3, text.find(':') - 3));
  return 0;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  const auto found = kernels.find(*static_cast<std::string*>(module) + "/" + name);
  if (found == kernels.end()) return 500;
  *function = (void*)found->second;
  return 0;
}
int cuLaunchKernel(void* function, unsigned x, unsigned y, unsigned, unsigned threads, unsigned, unsigned, unsigned, void*,
                   void** arguments, void**) {
  argument = arguments[0];
  run_grid((Run)function, {x, y}, threads);
  return 0;
}
}
