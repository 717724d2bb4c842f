// The kernels of a GPU on a processor: a block's threads are fibers, one after the other up to the next __syncthreads.
#pragma once
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#define DEVICE inline
#define SHARED static  // one block runs at a time
#define KERNEL(threads, blocks) static void
#define UNROLL
#define UNROLL_BY(n)
#define __forceinline__ inline

struct Index {
  unsigned x = 0, y = 0;
};
static Index threadIdx, blockIdx, blockDim, gridDim;

struct float4 {
  float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

using std::isinf;
using std::isnan;
using std::rint;
template <class T>
inline T min(T a, T b) { return b < a ? b : a; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __dsqrt_rn(double a) { return std::sqrt(a); }
inline double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline float __double2float_rn(double a) { return (float)a; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline int __float2int_rn(float a) { return (int)rintf(a); }
inline float __int2float_rn(int a) { return (float)a; }
inline float __fadd_rd(float a, float b) {  // towards minus infinity: what nearest gives, unless that is above the sum
  const float near = a + b;
  return (double)near > (double)a + (double)b ? std::nextafterf(near, -INFINITY) : near;
}
template <class To, class From>
inline To same_bits(From from) {
  To to;
  static_assert(sizeof to == sizeof from, "the same size");
  std::memcpy(&to, &from, sizeof to);
  return to;
}
inline uint32_t __float_as_uint(float a) { return same_bits<uint32_t>(a); }
inline float __uint_as_float(uint32_t a) { return same_bits<float>(a); }
inline long long __double_as_longlong(double a) { return same_bits<long long>(a); }
inline double __longlong_as_double(long long a) { return same_bits<double>(a); }
template <class T>
inline T atomicAdd(T* p, T v) { const T old = *p; *p = (T)(old + v); return old; }
template <class T>
inline T atomicMin(T* p, T v) { const T old = *p; *p = std::min(old, v); return old; }
template <class T>
inline T atomicMax(T* p, T v) { const T old = *p; *p = std::max(old, v); return old; }

// Fibers: each thread runs until it waits or ends; when all have, those that wait go on.
struct Fiber {
  ucontext_t context;
  std::vector<char> stack = std::vector<char>(64 << 10);
  bool done = false;
};
static std::vector<Fiber> fibers;
static ucontext_t scheduler;
static unsigned running;
static void (*body)();

inline void __syncthreads() { swapcontext(&fibers[running].context, &scheduler); }
static void run_thread() {
  body();
  fibers[running].done = true;
  swapcontext(&fibers[running].context, &scheduler);
}

// Runs a kernel's body for all threads of all blocks.
inline void run_grid(void (*kernel)(), Index grid, unsigned threads) {
  body = kernel, gridDim = grid, blockDim = {threads, 1};
  if (fibers.size() < threads) fibers.resize(threads);
  for (blockIdx.y = 0; blockIdx.y < grid.y; blockIdx.y++)
    for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++) {
      for (unsigned t = 0; t < threads; t++) {
        Fiber& fiber = fibers[t];
        fiber.done = false;
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.data();
        fiber.context.uc_stack.ss_size = fiber.stack.size();
        fiber.context.uc_link = nullptr;
        makecontext(&fiber.context, run_thread, 0);
      }
      for (bool waiting = true; waiting;) {
        waiting = false;
        for (running = 0; running < threads; running++) {
          if (fibers[running].done) continue;
          threadIdx = {running, 0};
          swapcontext(&scheduler, &fibers[running].context);
          waiting |= !fibers[running].done;
        }
      }
    }
}
