// The Python face of the kernels: arrays in, integers out, the lock released meanwhile.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "plan.h"

namespace nb = nanobind;
using namespace sketchlearn;

namespace {

std::vector<const Kernel*> available_kernels() {
  std::vector<const Kernel*> kernels;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma"))
    kernels.push_back(avx512_kernel());
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) kernels.push_back(avx2_kernel());
#elif defined(__aarch64__)
  kernels.push_back(neon_kernel());
#endif
  kernels.push_back(portable_kernel());
  return kernels;
}

const Kernel* find_kernel(const std::string& name) {
  for (const Kernel* kernel : available_kernels())
    if (name == kernel->name) return kernel;
  throw std::invalid_argument("no kernel named " + name + " on this machine");
}

using Array = nb::ndarray<nb::ro, nb::ndim<2>, nb::device::cpu>;
using Floats = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using Doubles = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Weights = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using RowIntegers = nb::ndarray<int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void require(bool holds, const char* message) {
  if (!holds) throw std::invalid_argument(message);
}

Rows rows_of(const Array& x, int64_t n_features) {
  const bool is_double = x.dtype() == nb::dtype<double>();
  require(is_double || x.dtype() == nb::dtype<float>(), "rows must be float32 or float64");
  require((int64_t)x.shape(1) == n_features, "rows have the wrong number of columns");
  return {x.data(), (int64_t)x.shape(0), n_features, x.stride(0), x.stride(1), is_double};
}

const int64_t* weights_of(const nb::object& weights, const Rows& rows) {
  if (weights.is_none()) return nullptr;
  const auto array = nb::cast<Weights>(weights);
  require((int64_t)array.shape(0) == rows.count, "one weight per row is needed");
  return array.data();
}

struct PyPlan {
  Plan plan;

  PyPlan(const std::string& kernel, int wave, const Floats& center, int64_t n_columns, double limit, double radius,
         const std::vector<float>& series, uint64_t key, int64_t n_groups) {
    require(wave >= 0 && wave <= static_cast<int>(Wave::phase), "unknown wave");
    require(n_groups >= 1 && n_columns >= 1 && n_columns % n_groups == 0, "groups must divide the columns");
    plan.kernel = find_kernel(kernel);
    plan.wave = static_cast<Wave>(wave);
    plan.n_features = (int64_t)center.size();
    plan.n_columns = n_columns;
    plan.center.assign(center.data(), center.data() + center.size());
    plan.limit = limit;
    plan.radius = radius;
    plan.series = series;
    plan.key = key;
    plan.n_groups = n_groups;
  }

  void dense(const Floats& frequencies, const Floats& dither) {
    require((int64_t)frequencies.size() == plan.n_features * plan.n_columns, "frequencies have the wrong size");
    require((int64_t)dither.size() == plan.n_columns, "dither has the wrong size");
    plan.set_dense(frequencies.data(), dither.data());
  }

  void structured(const Floats& signs, const Floats& radii, const Floats& dither, int64_t size) {
    const int64_t group = plan.n_columns / plan.n_groups;
    require(size >= kSmallestTransform && (size & (size - 1)) == 0 && size >= plan.n_features, "block size is not usable");
    require(plan.n_groups == 1 || group % size == 0, "a group must be whole blocks");
    const int64_t all = plan.n_groups * ((group + size - 1) / size) * size;
    require((int64_t)signs.size() == 3 * all && (int64_t)radii.size() == all, "diagonals have the wrong size");
    require((int64_t)dither.size() == plan.n_columns, "dither has the wrong size");
    plan.set_structured(signs.data(), radii.data(), dither.data(), size);
  }

  int64_t add(const Array& x, const nb::object& weights, int n_threads, Integers sums) const {
    const Rows rows = rows_of(x, plan.n_features);
    const int64_t* w = weights_of(weights, rows);
    require((int64_t)sums.size() == plan.parts() * plan.n_columns, "sums have the wrong size");
    int64_t* out = sums.data();
    nb::gil_scoped_release release;
    return plan.add(rows, w, n_threads, out);
  }

  int64_t write(const Array& x, int n_threads, RowIntegers out) const {
    const Rows rows = rows_of(x, plan.n_features);
    require((int64_t)out.shape(0) == rows.count && (int64_t)out.shape(1) == plan.parts() * plan.n_columns,
            "out has the wrong shape");
    int32_t* to = out.data();
    nb::gil_scoped_release release;
    return plan.write(rows, n_threads, to);
  }
};

int64_t moments(const std::string& kernel, const Array& x, const Doubles& center, const Doubles& bound,
                const nb::object& weights, int n_threads, Integers sums) {
  const int64_t d = (int64_t)center.size();
  const Rows rows = rows_of(x, d);
  const int64_t* w = weights_of(weights, rows);
  require((int64_t)bound.size() == d && (int64_t)sums.size() == d + d * (d + 1) / 2, "sums have the wrong size");
  const Kernel* chosen = find_kernel(kernel);
  const double *c = center.data(), *b = bound.data();
  int64_t* out = sums.data();
  nb::gil_scoped_release release;
  return add_moments(chosen, rows, c, b, w, n_threads, out);
}

}  // namespace

NB_MODULE(_native, m) {
  nb::set_leak_warnings(false);  // operators that live until the interpreter ends keep their plans
  m.def("kernels", [] {
    std::vector<std::string> names;
    for (const Kernel* kernel : available_kernels()) names.emplace_back(kernel->name);
    return names;
  });
  nb::class_<PyPlan>(m, "Plan")
      .def(nb::init<const std::string&, int, const Floats&, int64_t, double, double, const std::vector<float>&, uint64_t,
                    int64_t>(),
           nb::arg("kernel"), nb::arg("wave"), nb::arg("center"), nb::arg("n_columns"), nb::arg("limit"),
           nb::arg("radius"), nb::arg("series"), nb::arg("key"), nb::arg("n_groups"))
      .def("dense", &PyPlan::dense, nb::arg("frequencies"), nb::arg("dither"))
      .def("structured", &PyPlan::structured, nb::arg("signs"), nb::arg("radii"), nb::arg("dither"), nb::arg("size"))
      .def("add", &PyPlan::add, nb::arg("rows"), nb::arg("weights").none(), nb::arg("n_threads"), nb::arg("sums"))
      .def("write", &PyPlan::write, nb::arg("rows"), nb::arg("n_threads"), nb::arg("out"));
  m.def("moments", &moments, nb::arg("kernel"), nb::arg("rows"), nb::arg("center"), nb::arg("bound"),
        nb::arg("weights").none(), nb::arg("n_threads"), nb::arg("sums"));
}
