// The order of elements: they are mapped to unsigned keys of the same order, with NaN as the
// largest in either direction.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

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

// Keys compare like the elements, or in reverse if descending.
template <class T>
KeyOf<T> key_of(T value, bool descending) {
  using Key = KeyOf<T>;
  constexpr Key top = static_cast<Key>(Key{1} << (std::numeric_limits<Key>::digits - 1));
  if (is_nan(value)) return std::numeric_limits<Key>::max();
  Key key = std::bit_cast<Key>(value);
  if constexpr (!std::is_integral_v<T>) {
    if (key == top) key = 0;  // −0 equals +0
    key = static_cast<Key>((key & top) != 0 ? ~key : key | top);
  } else if constexpr (std::is_signed_v<T>) {
    key = static_cast<Key>(key ^ top);
  }
  return descending ? static_cast<Key>(~key) : key;
}

}  // namespace extensor::cpu
