// The last step of a product: bias, activation, rounding to the element type.

#if defined(EXTENSOR_GEMM_FINISH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EXTENSOR_GEMM_FINISH_INL_H_
#undef EXTENSOR_GEMM_FINISH_INL_H_
#else
#define EXTENSOR_GEMM_FINISH_INL_H_
#endif

#include <cstdint>

#include "backend/cpu/gemm/elements-inl.h"
#include "backend/cpu/gemm/kernels.h"
#include "backend/cpu/simd/math_activation-inl.h"
#include "backend/cpu/simd/math_erf-inl.h"
#include "backend/cpu/simd/math_hyperbolic-inl.h"

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE::product {

// Not Max: NaN stays NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Relu(D d, V x) {
  return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
}

template <class Element, class Function>
HWY_INLINE void FinishWith(const Epilogue<Element>& finish, const ComputeOf<Element>* sums,
                           std::int64_t sums_row_stride, std::int64_t rows, std::int64_t columns,
                           Function function) {
  const hn::ScalableTag<ComputeOf<Element>> d;
  constexpr std::int64_t kLanes = hn::MaxLanes(d);
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto* from = sums + i * sums_row_stride;
    Element* to = finish.c + i * finish.c_row_stride;
    std::int64_t j = 0;
    for (; j + kLanes <= columns; j += kLanes) {
      auto x = hn::LoadU(d, from + j);
      if (finish.bias != nullptr) x = hn::Add(x, LoadElements(d, finish.bias + j));
      StoreElements(d, function(x), to + j);
    }
    if (j < columns) {
      auto x = LoadSomeElements(d, from + j, columns - j);
      if (finish.bias != nullptr) {
        x = hn::Add(x, LoadSomeElements(d, finish.bias + j, columns - j));
      }
      StoreSomeElements(d, function(x), to + j, columns - j);
    }
  }
}

template <class Element>
void FinishRows(const Epilogue<Element>& finish, const ComputeOf<Element>* sums,
                std::int64_t sums_row_stride, std::int64_t rows, std::int64_t columns) {
  const hn::ScalableTag<ComputeOf<Element>> d;
  using V = hn::Vec<decltype(d)>;
  switch (finish.activation) {
    case Activation::none:
      return FinishWith(finish, sums, sums_row_stride, rows, columns, [](V x) { return x; });
    case Activation::relu:
      return FinishWith(finish, sums, sums_row_stride, rows, columns,
                        [d](V x) { return Relu(d, x); });
    case Activation::sigmoid:
      return FinishWith(finish, sums, sums_row_stride, rows, columns,
                        [d](V x) { return Sigmoid(d, x); });
    case Activation::tanh:
      return FinishWith(finish, sums, sums_row_stride, rows, columns,
                        [d](V x) { return Tanh(d, x); });
    case Activation::gelu:
      return FinishWith(finish, sums, sums_row_stride, rows, columns,
                        [d](V x) { return Gelu(d, x); });
    case Activation::silu:
      return FinishWith(finish, sums, sums_row_stride, rows, columns,
                        [d](V x) { return Silu(d, x); });
    case Activation::gelu_tanh:
      return FinishWith(finish, sums, sums_row_stride, rows, columns,
                        [d](V x) { return GeluTanh(d, x); });
  }
}

}  // namespace extensor::cpu::HWY_NAMESPACE::product
HWY_AFTER_NAMESPACE();

#endif  // EXTENSOR_GEMM_FINISH_INL_H_
