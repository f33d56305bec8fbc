// Kernels of float16 and bfloat16 products, for every SIMD target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/gemm/kernels_half.cpp"
#include <hwy/foreach_target.h>
// Must follow foreach_target.h, as Highway requires.
#include "backend/cpu/gemm/kernels-inl.h"

#ifdef EXTENSOR_BFLOAT16_PAIRS
HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE::product {
template <>
constinit const TileFunctions<BFloat16Pair> TileTable<BFloat16Pair>::functions =
    MakeTileFunctions<BFloat16Pair>();
}  // namespace extensor::cpu::HWY_NAMESPACE::product
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
#include "backend/cpu/gemm/select.h"
#include "core/simd/bfloat16.h"

namespace extensor::cpu {

template <>
const Kernels<Float16>& kernels<Float16>() {
  static const Kernels<Float16>& selected = SelectKernels<Float16>();
  return selected;
}

namespace {

const Kernels<BFloat16>& select_bfloat16_kernels() {
#if HWY_TARGETS & HWY_AVX3
  if (detail::has_bfloat16_products()) return N_AVX3::product::kPairKernels;
#elif defined(EXTENSOR_BFLOAT16_PAIRS)
  if (detail::has_bfloat16_products()) return HWY_STATIC_DISPATCH(product::kPairKernels);
#endif
  return SelectKernels<BFloat16>();
}

}  // namespace

template <>
const Kernels<BFloat16>& kernels<BFloat16>() {
  static const Kernels<BFloat16>& selected = select_bfloat16_kernels();
  return selected;
}

}  // namespace extensor::cpu
#endif
