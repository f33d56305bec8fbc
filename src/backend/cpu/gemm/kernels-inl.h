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
    &Pack<Element>,
    &RunBlock<Element>,
    TinyFunction<Element>(),
    &FinishRows<Element>,
    &RunDotBlock<Element>,
    &CombineRows<Element>,
};

}  // namespace extensor::cpu::HWY_NAMESPACE::product
HWY_AFTER_NAMESPACE();

#endif  // EXTENSOR_GEMM_KERNELS_INL_H_
