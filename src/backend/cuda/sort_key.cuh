// Elements as unsigned integers that compare like them, for the kernels that sort and search.
#pragma once

#include "backend/cuda/context.h"

namespace extensor::backend::cuda {

// The narrowest key that CUB sorts well: 32 bits, or 64 for elements of that size.
template <class T>
using KeyOf = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
template <class T>
inline constexpr int key_bits = 8 * static_cast<int>(sizeof(T));

#ifdef __CUDACC__

template <class T>
using BitsOf = std::conditional_t<
    sizeof(T) == 8, std::uint64_t,
    std::conditional_t<sizeof(T) == 4, std::uint32_t,
                       std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>>>;
template <class T>
inline constexpr BitsOf<T> top_bit = static_cast<BitsOf<T>>(BitsOf<T>{1} << (key_bits<T> - 1));

// Keys compare like the elements, or in reverse if descending; NaN is the largest in both.
template <class T>
__device__ __forceinline__ KeyOf<T> key_of(T value, bool descending) {
  using Bits = BitsOf<T>;
  Bits bits;
  if constexpr (std::is_same_v<T, bool>) {
    bits = value ? 1 : 0;
  } else {
    bits = __builtin_bit_cast(Bits, value);
  }
  constexpr Bits top = top_bit<T>;
  if constexpr (!std::is_integral_v<T>) {
    if (load_as_compute(value) != load_as_compute(value)) return static_cast<Bits>(~Bits{0});
    if (bits == top) bits = 0;  // −0 equals +0
    bits = static_cast<Bits>((bits & top) != 0 ? ~bits : bits | top);
  } else if constexpr (std::is_signed_v<T>) {
    bits = static_cast<Bits>(bits ^ top);
  }
  return descending ? static_cast<Bits>(~bits) : bits;
}

// Whether only one element has this key; `value` is then that element.
template <class T>
__device__ __forceinline__ bool element_of(KeyOf<T> key, bool descending, T& value) {
  using Bits = BitsOf<T>;
  constexpr Bits top = top_bit<T>;
  Bits bits = static_cast<Bits>(key);
  if constexpr (!std::is_integral_v<T>) {
    if (bits == static_cast<Bits>(~Bits{0})) return false;  // NaN
    if (descending) bits = static_cast<Bits>(~bits);
    if (bits == top) return false;  // 0
    bits = static_cast<Bits>((bits & top) != 0 ? bits ^ top : ~bits);
    value = __builtin_bit_cast(T, bits);
  } else {
    if (descending) bits = static_cast<Bits>(~bits);
    if constexpr (std::is_same_v<T, bool>) {
      value = bits != 0;
    } else {
      if constexpr (std::is_signed_v<T>) bits = static_cast<Bits>(bits ^ top);
      value = static_cast<T>(bits);
    }
  }
  return true;
}

#endif

}  // namespace extensor::backend::cuda
