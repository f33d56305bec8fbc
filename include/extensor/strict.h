// Parameter types that accept one kind of argument only. C++ silently converts bool, int and double
// into each other, so that sum(x, true) would mean axis 1 and sum(x, 0, 1) would mean keepdims.
// Functions with such parameters take these types instead, which convert back implicitly.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "extensor/export.h"

EXTENSOR_BEGIN_API

namespace extensor {

// A bool, and nothing that converts to one, such as a number or a pointer.
class StrictBool {
 public:
  template <std::same_as<bool> T>
  constexpr StrictBool(T value) : value_(value) {}    // NOLINT: implicit
  constexpr operator bool() const { return value_; }  // NOLINT: implicit

 private:
  bool value_;
};

// An integer, but neither a bool nor a floating-point number.
class StrictInt {
 public:
  template <std::integral T>
  requires(!std::same_as<T, bool>) constexpr StrictInt(T value)  // NOLINT: implicit
      : value_(static_cast<std::int64_t>(value)) {}
  constexpr operator std::int64_t() const { return value_; }  // NOLINT: implicit

 private:
  std::int64_t value_;
};

// The types that convert to a StrictInt. Classes with a conversion to any type at all, such as
// those that reflect.h counts members with, are not among them.
template <class T>
concept StrictInteger = (std::is_scalar_v<T> ||
                         std::same_as<T, StrictInt>)&&std::convertible_to<T, StrictInt>;

// A number: an integer or a floating-point number, but not a bool.
class StrictDouble {
 public:
  template <class T>
  requires(std::is_arithmetic_v<T> &&
           !std::same_as<T, bool>) constexpr StrictDouble(T value)  // NOLINT: implicit
      : value_(static_cast<double>(value)) {}
  constexpr operator double() const { return value_; }  // NOLINT: implicit

 private:
  double value_;
};

}  // namespace extensor

EXTENSOR_END_API
