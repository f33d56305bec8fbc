// Building error messages, and the checks of axes and sizes that every op shares.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "extensor/device.h"
#include "extensor/dtype.h"
#include "extensor/error.h"
#include "extensor/export.h"
#include "extensor/scalar.h"
#include "extensor/shape.h"

// The command-line tool uses these, too.
EXTENSOR_BEGIN_API

namespace extensor::detail {

void append_part(std::string& text, std::string_view part);
void append_part(std::string& text, const Dims& part);  // [2, 3]
void append_part(std::string& text, DType part);        // float32
void append_part(std::string& text, const Device& part);
void append_part(std::string& text, const Scalar& part);
void append_part(std::string& text, double part);  // the shortest text that reads back the same
void append_part(std::string& text, float part);
void append_signed(std::string& text, std::int64_t part);
void append_unsigned(std::string& text, std::uint64_t part);

inline void append_part(std::string& text, const char* part) {
  append_part(text, std::string_view(part));
}
inline void append_part(std::string& text, const std::string& part) {
  append_part(text, std::string_view(part));
}
inline void append_part(std::string& text, StrictInt part) { append_signed(text, part); }
inline void append_part(std::string& text, StrictDouble part) {
  append_part(text, static_cast<double>(part));
}
// Constrained, so that neither a pointer nor an integer turns into a bool.
template <std::same_as<bool> Bool>
void append_part(std::string& text, Bool part) {
  append_part(text, part ? std::string_view("true") : std::string_view("false"));
}
template <std::same_as<char> Character>
void append_part(std::string& text, Character part) {
  append_part(text, std::string_view(&part, 1));
}
template <std::integral Integer>
requires(!std::same_as<Integer, bool> &&
         !std::same_as<Integer, char>) void append_part(std::string& text, Integer part) {
  if constexpr (std::signed_integral<Integer>) {
    append_signed(text, static_cast<std::int64_t>(part));
  } else {
    append_unsigned(text, static_cast<std::uint64_t>(part));
  }
}

// message("sum: axis ", 3, " of ", shape) concatenates its parts.
template <class... Parts>
std::string message(const Parts&... parts) {
  std::string text;
  (append_part(text, parts), ...);
  return text;
}

[[noreturn]] void throw_axis_out_of_range(const char* operation, std::int64_t axis,
                                          std::int64_t rank);

// The axis counted from 0. IndexError outside -rank … rank - 1.
inline std::int64_t normalize_axis(const char* operation, std::int64_t axis, std::int64_t rank) {
  if (axis < -rank || axis >= rank) [[unlikely]] {
    throw_axis_out_of_range(operation, axis, rank);
  }
  return axis < 0 ? axis + rank : axis;
}

// The axes counted from 0, ascending. IndexError for one out of range, ValueError for one named
// twice.
Dims normalize_axes(const char* operation, const Axes& axes, std::int64_t rank);

// The number of elements. ShapeError for a negative dimension, a rank beyond max_rank, or a count
// beyond int64; the other dimensions are checked even if one is 0.
std::int64_t checked_numel(const char* operation, const Shape& shape);

[[noreturn]] void throw_invalid_option(const char* operation, const char* argument, int value,
                                       int last);

// ValueError for a number that was cast to an enumeration of options but is none of them; `last` is
// the last option.
template <class Enum>
void check_option(const char* operation, const char* argument, Enum value, Enum last) {
  if (value > last) [[unlikely]] {
    throw_invalid_option(operation, argument, static_cast<int>(value), static_cast<int>(last));
  }
}

[[noreturn]] void throw_invalid_dtype(const char* operation, DType dtype);
[[noreturn]] void throw_byte_overflow(const char* operation, std::int64_t numel, DType dtype);

// DTypeError for a number that was cast to DType but is none of the dtypes.
inline void check_dtype(const char* operation, DType dtype) {
  if (!is_valid(dtype)) [[unlikely]] {
    throw_invalid_dtype(operation, dtype);
  }
}

// The number of bytes. DTypeError for an invalid dtype, ShapeError when the number does not fit
// int64, in which offsets are counted.
inline std::size_t checked_bytes(const char* operation, std::int64_t numel, DType dtype) {
  check_dtype(operation, dtype);
  const auto item = static_cast<std::int64_t>(itemsize(dtype));
  std::int64_t bytes;
  if (__builtin_mul_overflow(numel, item, &bytes)) [[unlikely]] {
    throw_byte_overflow(operation, numel, dtype);
  }
  return static_cast<std::size_t>(bytes);
}

}  // namespace extensor::detail

EXTENSOR_END_API
