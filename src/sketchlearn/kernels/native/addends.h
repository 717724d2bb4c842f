// The numbers that products are added to, in memory: on NEON a fused multiply-add overwrites its addend, and loading it
// anew costs less than copying a register. Filled at compile time: code run at load could meet a machine too old for it.
// Included after simd.h.
#include "wave_numbers.h"

struct AddendTable {
  alignas(64) float values[kAddends][kLanes];
};
constexpr AddendTable make_addend_table() {
  AddendTable table{};
  for (int i = 0; i < kAddends; i++)
    for (int lane = 0; lane < kLanes; lane++) table.values[i][lane] = addend(i);
  return table;
}
constexpr AddendTable kAddendTable = make_addend_table();

// A pointer of which the compiler knows nothing, so that it loads anew: 1.97 -> 1.75 ns a feature on a Neoverse N1.
template <class T>
inline const T* forget(const T* pointer) {
#if defined(SKETCHLEARN_NEON)
  __asm__ volatile("" : "+r"(pointer));
#endif
  return pointer;
}

struct Addends {
  Pack<const AddendTable*> tables = each([](int) { return forget(&kAddendTable); }, Pack<int>{});
  inline Floats operator[](Addend i) const {
    return each([i](const AddendTable* table) { return load(table->values[i]); }, tables);
  }
};
