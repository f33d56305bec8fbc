// Kernels of float64 products, for every SIMD target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/gemm/kernels_f64.cpp"
#include <hwy/foreach_target.h>
// Must follow foreach_target.h, as Highway requires.
#include "backend/cpu/gemm/kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE::product {
template <>
constinit const TileFunctions<double> TileTable<double>::functions = MakeTileFunctions<double>();
}  // namespace extensor::cpu::HWY_NAMESPACE::product
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/gemm/select.h"

namespace extensor::cpu {

template <>
const Kernels<double>& kernels<double>() {
  static const Kernels<double>& selected = SelectKernels<double>();
  return selected;
}

}  // namespace extensor::cpu
#endif
