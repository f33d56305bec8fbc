// The rule by which a value of one dtype converts to another. It is defined for every value: float
// → integer truncates and saturates, NaN → 0; integer → integer wraps; anything → bool is "not
// zero" (so NaN is true); to a narrower float rounds to nearest even, once.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "extensor/float16.h"

namespace extensor::detail {

template <class T>
inline constexpr bool is_half_type = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

template <std::integral To, std::floating_point From>
constexpr To saturate(From value) {
  using Limits = std::numeric_limits<To>;
  if constexpr (Limits::digits <= std::numeric_limits<double>::digits) {
    // Both limits are exact in the wider type, so clamping there is two selects and no branch.
    using Wide =
        std::conditional_t<(Limits::digits <= std::numeric_limits<From>::digits), From, double>;
    constexpr Wide lowest = static_cast<Wide>(Limits::min());
    constexpr Wide highest = static_cast<Wide>(Limits::max());
    Wide wide = static_cast<Wide>(value);
    wide = wide == wide ? wide : Wide(0);
    wide = wide < lowest ? lowest : wide;
    wide = wide > highest ? highest : wide;
    if constexpr (sizeof(To) < sizeof(std::int32_t)) {
      return static_cast<To>(static_cast<std::int32_t>(wide));  // as vector units convert
    } else {
      return static_cast<To>(wide);
    }
  } else {
    // 2⁶³ and 2⁶⁴ are exact in any float, the largest integers are not.
    constexpr From beyond = Limits::is_signed ? From(0x1p63) : From(0x1p64);
    constexpr From lowest = Limits::is_signed ? From(-0x1p63) : From(0);
    const bool fits = value >= lowest && value < beyond;  // false for NaN
    const To truncated = static_cast<To>(fits ? value : From(0));
    const To saturated = value >= beyond ? Limits::max() : truncated;
    return value < lowest ? Limits::min() : saturated;
  }
}

// A double that rounds to the same BFloat16 or Float16 as the integer does: bits that do not fit a
// double are folded into its last bit, far below the last bit of a half.
template <std::integral From>
constexpr double integer_with_sticky_bit(From value) {
  if constexpr (sizeof(From) < sizeof(std::uint64_t)) {
    return static_cast<double>(value);
  } else {
    const bool negative = value < 0;
    const std::uint64_t bits = static_cast<std::uint64_t>(value);
    const std::uint64_t magnitude = negative ? 0 - bits : bits;
    const std::uint64_t sticky = (magnitude & 0x7ffu) != 0 ? 0x800u : 0u;
    const std::uint64_t folded = (magnitude & ~std::uint64_t{0x7ff}) | sticky;
    const double result =
        static_cast<double>(magnitude >= (std::uint64_t{1} << 53) ? folded : magnitude);
    return negative ? -result : result;
  }
}

template <class To, class From>
constexpr To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (is_half_type<From>) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (is_half_type<To>) {
    if constexpr (std::is_floating_point_v<From>) {
      return To(value);
    } else if constexpr (sizeof(From) <= sizeof(std::int16_t)) {
      return To(static_cast<float>(value));
    } else {
      return To(integer_with_sticky_bit(value));
    }
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    return saturate<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace extensor::detail
