// float16 (IEEE binary16) and bfloat16 as storage types: 16 bits, converted to and from float with
// round to nearest even, NaN kept NaN, overflow to infinity. Arithmetic happens in float or wider.
#pragma once

#include <bit>
#include <cstdint>

#include "extensor/export.h"

EXTENSOR_BEGIN_API

namespace extensor {

namespace detail {

constexpr std::uint16_t float_to_float16_bits(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {  // NaN: keep the top payload bits, make it quiet
    return static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu));
  }
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {  // subnormal or zero in float16
    if (magnitude < 0x33000000u) return static_cast<std::uint16_t>(sign);
    const std::uint32_t shift = 126u - (magnitude >> 23);  // 14..24 bits fall off
    const std::uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
    const std::uint32_t half = 1u << (shift - 1);
    const std::uint32_t rest = significand & ((1u << shift) - 1);
    std::uint32_t result = significand >> shift;
    if (rest > half || (rest == half && (result & 1u))) ++result;
    return static_cast<std::uint16_t>(sign | result);
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

constexpr float float16_bits_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0x1f) {  // infinity, or NaN made quiet
    const std::uint32_t quiet = fraction != 0 ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | (fraction << 13));
  }
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (fraction << 13));
}

constexpr std::uint16_t float_to_bfloat16_bits(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// double → half in one rounding: round to odd in float keeps the sticky bit.
constexpr float double_to_float_round_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  const double back = static_cast<double>(nearest);
  if (back == value || value != value) return nearest;
  std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest);
  if ((bits & 0x7fffffffu) == 0x7f800000u) return nearest;
  const bool rounded_away = (back < 0 ? -back : back) > (value < 0 ? -value : value);
  if (rounded_away) --bits;
  return std::bit_cast<float>(bits | 1u);
}

}  // namespace detail

class Float16 {
 public:
  constexpr Float16() = default;
  constexpr explicit Float16(float value) : bits_(detail::float_to_float16_bits(value)) {}
  constexpr explicit Float16(double value) : Float16(detail::double_to_float_round_to_odd(value)) {}
  static constexpr Float16 from_bits(std::uint16_t bits) {
    Float16 result;
    result.bits_ = bits;
    return result;
  }
  constexpr std::uint16_t bits() const { return bits_; }
  constexpr explicit operator float() const { return detail::float16_bits_to_float(bits_); }

 private:
  std::uint16_t bits_ = 0;
};

class BFloat16 {
 public:
  constexpr BFloat16() = default;
  constexpr explicit BFloat16(float value) : bits_(detail::float_to_bfloat16_bits(value)) {}
  constexpr explicit BFloat16(double value)
      : BFloat16(detail::double_to_float_round_to_odd(value)) {}
  static constexpr BFloat16 from_bits(std::uint16_t bits) {
    BFloat16 result;
    result.bits_ = bits;
    return result;
  }
  constexpr std::uint16_t bits() const { return bits_; }
  constexpr explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits_) << 16);
  }

 private:
  std::uint16_t bits_ = 0;
};

}  // namespace extensor

EXTENSOR_END_API
