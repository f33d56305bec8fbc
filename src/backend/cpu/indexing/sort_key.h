// The order of elements: they are mapped to unsigned keys of the same order, with NaN as the
// largest in either direction.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "backend/cpu/width.h"
#include "core/convert.h"

namespace extensor::cpu {

template <std::size_t size>
struct UnsignedOf;
template <>
struct UnsignedOf<1> {
  using Type = std::uint8_t;
};
template <>
struct UnsignedOf<2> {
  using Type = std::uint16_t;
};
template <>
struct UnsignedOf<4> {
  using Type = std::uint32_t;
};
template <>
struct UnsignedOf<8> {
  using Type = std::uint64_t;
};
template <class T>
using KeyOf = typename UnsignedOf<sizeof(T)>::Type;

template <class T>
bool is_nan(T value) {
  if constexpr (std::is_integral_v<T>) {
    return false;
  } else {
    return value != value;
  }
}
inline bool is_nan(Float16 value) { return std::isnan(static_cast<float>(value)); }
inline bool is_nan(BFloat16 value) { return std::isnan(static_cast<float>(value)); }

template <class Key>
inline constexpr Key top_bit = static_cast<Key>(Key{1} << (std::numeric_limits<Key>::digits - 1));

// The bits that key_of() flips: the sign of signed integers, and all if descending.
template <class T>
KeyOf<T> flips_of(DType dtype, bool descending) {
  using Key = KeyOf<T>;
  const Key sign = is_signed_integer(dtype) ? top_bit<Key> : Key{0};
  return descending ? static_cast<Key>(~sign) : sign;
}

// Keys compare like the elements, or in reverse if descending.
template <class T>
KeyOf<T> key_of(T value, KeyOf<T> flips) {
  using Key = KeyOf<T>;
  if (is_nan(value)) return std::numeric_limits<Key>::max();
  Key key = std::bit_cast<Key>(value);
  if constexpr (!std::is_integral_v<T>) {
    constexpr Key top = top_bit<Key>;
    if (key == top) key = 0;  // −0 equals +0
    key = static_cast<Key>((key & top) != 0 ? ~key : key | top);
  }
  return static_cast<Key>(key ^ flips);
}

// Calls f with the type of the elements, where signed integers and bool are unsigned.
template <class Function>
void visit_sorted(DType dtype, Function&& f) {
  visit_unsigned(dtype, [&]<class T>() {
    using Element = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
    f.template operator()<Element>();
  });
}

}  // namespace extensor::cpu
