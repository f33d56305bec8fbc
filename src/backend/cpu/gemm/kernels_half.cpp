// Kernels of float16 and bfloat16 products, for every SIMD target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/gemm/kernels_half.cpp"
#include <hwy/foreach_target.h>
// Must follow foreach_target.h, as Highway requires.
#include "backend/cpu/gemm/kernels-inl.h"

#if HWY_ONCE
#include "backend/cpu/gemm/select.h"

namespace extensor::cpu {

template <>
const Kernels<Float16>& kernels<Float16>() {
  static const Kernels<Float16>& selected = SelectKernels<Float16>();
  return selected;
}

template <>
const Kernels<BFloat16>& kernels<BFloat16>() {
  static const Kernels<BFloat16>& selected = SelectKernels<BFloat16>();
  return selected;
}

}  // namespace extensor::cpu
#endif
