// Selects among the kernel tables of the compiled targets; included once per translation unit,
// after its kernels.
#pragma once

#include <hwy/highway.h>

#include "backend/cpu/gemm/kernels.h"

namespace extensor::cpu {

template <class Element>
const Kernels<Element>& SelectKernels() {
  using detail::SimdTarget;
  [[maybe_unused]] const SimdTarget target = detail::simd_target();
#if HWY_TARGETS & HWY_AVX3
  if (target == SimdTarget::avx512) return N_AVX3::product::kGemmKernels<Element>;
#endif
#if HWY_TARGETS & HWY_AVX2
  if (target >= SimdTarget::avx2) return N_AVX2::product::kGemmKernels<Element>;
#endif
  return HWY_STATIC_DISPATCH(product::kGemmKernels<Element>);
}

}  // namespace extensor::cpu
