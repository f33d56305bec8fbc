// Loads and stores vectors of computed values from and to elements of any float dtype.

#if defined(EXTENSOR_GEMM_ELEMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EXTENSOR_GEMM_ELEMENTS_INL_H_
#undef EXTENSOR_GEMM_ELEMENTS_INL_H_
#else
#define EXTENSOR_GEMM_ELEMENTS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "backend/cpu/simd/half-inl.h"

// Applied to lambdas: GCC then sees the body before it decides which arrays to keep in registers.
#ifndef EXTENSOR_INLINED
#define EXTENSOR_INLINED __attribute__((always_inline))
#endif

HWY_BEFORE_NAMESPACE();
namespace extensor::cpu::HWY_NAMESPACE::product {
namespace hn = hwy::HWY_NAMESPACE;

// Calls f(0), f(1), …, each with a constant argument: arrays of vectors stay in registers.
template <int kCount, class F>
HWY_INLINE constexpr void Unroll(F f) {
  [&]<int... i>(std::integer_sequence<int, i...>) EXTENSOR_INLINED {
    (f(std::integral_constant<int, i>()), ...);
  }
  (std::make_integer_sequence<int, kCount>());
}

template <class D>
HWY_INLINE hn::Vec<D> LoadElements(D d, const hn::TFromD<D>* from) {
  return hn::LoadU(d, from);
}

template <class D>
HWY_INLINE void StoreElements(D d, hn::Vec<D> v, hn::TFromD<D>* to) {
  hn::StoreU(v, d, to);
}

template <class D, class Half>
requires(sizeof(Half) == 2) HWY_INLINE hn::Vec<D> LoadElements(D d, const Half* from) {
  return LoadHalf(d, from);
}

template <class D, class Half>
requires(sizeof(Half) == 2) HWY_INLINE void StoreElements(D d, hn::Vec<D> v, Half* to) {
  StoreHalf(v, d, to);
}

// The first `count` < lanes elements; the other lanes are 0.
template <class D, class Element>
HWY_INLINE hn::Vec<D> LoadSomeElements(D d, const Element* from, std::size_t count) {
  if constexpr (std::is_same_v<Element, hn::TFromD<D>>) {
    return hn::MaskedLoad(hn::FirstN(d, count), d, from);
  } else {
    Element padded[hn::MaxLanes(d)] = {};
    for (std::size_t i = 0; i < count; ++i) padded[i] = from[i];
    return LoadElements(d, padded);
  }
}

template <class D, class Element>
HWY_INLINE void StoreSomeElements(D d, hn::Vec<D> v, Element* to, std::size_t count) {
  if constexpr (std::is_same_v<Element, hn::TFromD<D>>) {
    hn::BlendedStore(v, hn::FirstN(d, count), d, to);
  } else {
    Element padded[hn::MaxLanes(d)];
    StoreElements(d, v, padded);
    for (std::size_t i = 0; i < count; ++i) to[i] = padded[i];
  }
}

// Transposes 4×4 (2×2 for double) matrices, one per 128-bit block, whose columns are the vectors.
#if HWY_TARGET != HWY_SCALAR
template <class D, class V = hn::Vec<D>>
HWY_INLINE void TransposeBlocks(D d, V* HWY_RESTRICT v) {
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    const hn::Repartition<double, D> wide;
    const auto low01 = hn::BitCast(wide, hn::InterleaveLower(d, v[0], v[1]));
    const auto low23 = hn::BitCast(wide, hn::InterleaveLower(d, v[2], v[3]));
    const auto high01 = hn::BitCast(wide, hn::InterleaveUpper(d, v[0], v[1]));
    const auto high23 = hn::BitCast(wide, hn::InterleaveUpper(d, v[2], v[3]));
    v[0] = hn::BitCast(d, hn::InterleaveLower(wide, low01, low23));
    v[1] = hn::BitCast(d, hn::InterleaveUpper(wide, low01, low23));
    v[2] = hn::BitCast(d, hn::InterleaveLower(wide, high01, high23));
    v[3] = hn::BitCast(d, hn::InterleaveUpper(wide, high01, high23));
  } else {
    const V low = hn::InterleaveLower(d, v[0], v[1]);
    v[1] = hn::InterleaveUpper(d, v[0], v[1]);
    v[0] = low;
  }
}

// Loads one 128-bit block from each of block[0] + offset, block[1] + offset, … A lane holds one
// element, or several narrower ones.
template <class D, class Element>
HWY_INLINE hn::Vec<D> LoadBlocks(D d, const Element* const* block, std::int64_t offset) {
  constexpr std::size_t kBlocks = hn::MaxLanes(D()) * sizeof(hn::TFromD<D>) / 16;
  if constexpr (kBlocks == 1) {
    return hn::LoadU(d, reinterpret_cast<const hn::TFromD<D>*>(block[0] + offset));
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, LoadBlocks(half, block + kBlocks / 2, offset),
                       LoadBlocks(half, block, offset));
  }
}

// Lane i of v[step] is lane `step` of row i, where rows are contiguous and row_stride elements
// apart: block[b] is the first row of the b-th group of as many rows as a block has lanes.
template <class D, class Element, class V = hn::Vec<D>>
HWY_INLINE void LoadTransposed(D d, const Element* const* block, std::int64_t row_stride,
                               std::int64_t offset, V* HWY_RESTRICT v) {
  Unroll<16 / sizeof(hn::TFromD<D>)>(
      [&](auto row) EXTENSOR_INLINED { v[row] = LoadBlocks(d, block, offset + row * row_stride); });
  TransposeBlocks(d, v);
}
#endif

}  // namespace extensor::cpu::HWY_NAMESPACE::product
HWY_AFTER_NAMESPACE();

#endif  // EXTENSOR_GEMM_ELEMENTS_INL_H_
