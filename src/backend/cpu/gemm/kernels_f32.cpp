// Kernels of float32 products, for every SIMD target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/gemm/kernels_f32.cpp"
#include <hwy/foreach_target.h>
// Must follow foreach_target.h, as Highway requires.
#include "backend/cpu/gemm/kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE::product {
template <>
constinit const TileFunctions<float> TileTable<float>::functions = MakeTileFunctions<float>();
}  // namespace extensor::cpu::HWY_NAMESPACE::product
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/gemm/select.h"

namespace extensor::cpu {

template <>
const Kernels<float>& kernels<float>() {
  static const Kernels<float>& selected = SelectKernels<float>();
  return selected;
}

}  // namespace extensor::cpu
#endif
