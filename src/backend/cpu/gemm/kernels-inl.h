// Gathers one target's functions into a table, and selects a table at run time.

#if defined(EXTENSOR_GEMM_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EXTENSOR_GEMM_KERNELS_INL_H_
#undef EXTENSOR_GEMM_KERNELS_INL_H_
#else
#define EXTENSOR_GEMM_KERNELS_INL_H_
#endif

#include <type_traits>

#include "backend/cpu/gemm/block-inl.h"
#include "backend/cpu/gemm/dot-inl.h"
#include "backend/cpu/gemm/pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE::product {

template <class Element>
constexpr auto TinyFunction() -> void (*)(const GemmCall&) {
  if constexpr (std::is_same_v<Element, ComputeOf<Element>>) return &RunTiny<Element>;
  return nullptr;
}

template <class Element>
inline constexpr Kernels<Element> kGemmKernels{
    kTileRows,
    2 * hn::MaxLanes(hn::ScalableTag<ComputeOf<Element>>()),
    1,
    &Pack<Element>,
    &RunBlock<Element>,
    TinyFunction<Element>(),
    &FinishRows<Element>,
    &RunDotBlock<Element>,
    &CombineRows<Element>,
};

#ifdef EXTENSOR_BFLOAT16_PAIRS
// For processors with bfloat16 dot products. A matrix of which every element is used once is
// widened while it is read (CombineRows): its product takes as long as reading it.
inline constexpr Kernels<BFloat16> kPairKernels{
    kTileRows,
    2 * hn::MaxLanes(hn::ScalableTag<float>()),
    2,
    &PackPairs,
    &RunBlock<BFloat16, BFloat16Pair>,
    nullptr,
    &FinishRows<BFloat16>,
    &RunDotBlock<BFloat16, BFloat16Pair>,
    &CombineRows<BFloat16>,
};
#endif

}  // namespace extensor::cpu::HWY_NAMESPACE::product
HWY_AFTER_NAMESPACE();

#endif  // EXTENSOR_GEMM_KERNELS_INL_H_
