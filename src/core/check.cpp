#include "core/check.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace extensor::detail {

namespace {

template <class Number>
void append_number(std::string& text, Number number) {
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), number);
  text.append(buffer, result.ptr);
}

}  // namespace

void append_part(std::string& text, std::string_view part) { text.append(part); }
void append_part(std::string& text, const Dims& part) {
  text += '[';
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (i != 0) text += ", ";
    append_number(text, part[i]);
  }
  text += ']';
}
void append_part(std::string& text, DType part) {
  text += name(part);
  if (!is_valid(part)) text += message(" (", static_cast<int>(part), ")");
}
void append_part(std::string& text, const Device& part) { text += to_string(part); }
void append_part(std::string& text, const Scalar& part) {
  switch (part.kind()) {
    case Scalar::Kind::boolean:
      return append_part(text, part.as_integer() != 0);
    case Scalar::Kind::integer:
      return append_number(text, part.as_integer());
    case Scalar::Kind::unsigned_integer:
      return append_number(text, part.as_unsigned());
    case Scalar::Kind::floating:
      return append_part(text, part.as_double());
    case Scalar::Kind::complex: {
      const std::complex<double> value = part.as_complex();
      append_part(text, value.real());
      if (!std::signbit(value.imag()) || std::isnan(value.imag())) text += '+';
      append_part(text, value.imag());
      text += 'j';
      return;
    }
  }
}
void append_part(std::string& text, double part) {
  // std::to_chars would show the sign of a NaN, which means nothing.
  if (std::isnan(part)) {
    text += "nan";
  } else {
    append_number(text, part);
  }
}
void append_part(std::string& text, float part) {
  if (std::isnan(part)) {
    text += "nan";
  } else {
    append_number(text, part);
  }
}
void append_signed(std::string& text, std::int64_t part) { append_number(text, part); }
void append_unsigned(std::string& text, std::uint64_t part) { append_number(text, part); }

void throw_axis_out_of_range(const char* operation, std::int64_t axis, std::int64_t rank) {
  if (rank == 0) {
    throw IndexError(message(operation, ": axis ", axis,
                             " is out of range for a tensor of rank 0 (it has no axes)"));
  }
  throw IndexError(message(operation, ": axis ", axis, " is out of range for a tensor of rank ",
                           rank, " (allowed: ", -rank, " to ", rank - 1, ")"));
}

Dims normalize_axes(const char* operation, const Axes& axes, std::int64_t rank) {
  Dims result;
  if (axes.all()) {
    for (std::int64_t axis = 0; axis < rank; ++axis) result.push_back(axis);
    return result;
  }
  for (const std::int64_t axis : axes.list()) {
    result.push_back(normalize_axis(operation, axis, rank));
  }
  std::sort(result.begin(), result.end());
  const auto* repeated = std::adjacent_find(result.begin(), result.end());
  if (repeated != result.end()) {
    throw ValueError(message(operation, ": axis ", *repeated, " is given more than once in axes ",
                             axes.list(), " (each axis at most once)"));
  }
  return result;
}

std::int64_t checked_numel(const char* operation, const Shape& shape) {
  if (shape.size() > static_cast<std::size_t>(max_rank)) {
    throw ShapeError(message(operation, ": a shape of rank ", shape.size(),
                             " was given (allowed: at most ", max_rank, " dimensions)"));
  }
  std::int64_t without_zeros = 1;
  bool empty = false;
  bool overflow = false;
  for (const std::int64_t dimension : shape) {
    if (dimension < 0) {
      throw ShapeError(message(operation, ": negative dimension ", dimension, " in shape ", shape,
                               " (allowed: 0 or more)"));
    }
    if (dimension == 0) {
      empty = true;
    } else {
      overflow |= __builtin_mul_overflow(without_zeros, dimension, &without_zeros);
    }
  }
  if (overflow) {
    throw ShapeError(message(operation, ": the element count of shape ", shape,
                             " overflows (allowed: at most ", INT64_MAX, " elements)"));
  }
  return empty ? 0 : without_zeros;
}

void throw_invalid_option(const char* operation, const char* argument, int value, int last) {
  throw ValueError(message(operation, ": ", argument, " is option number ", value,
                           " (allowed: 0 to ", last, ")"));
}

void throw_invalid_dtype(const char* operation, DType dtype) {
  throw DTypeError(message(operation, ": dtype is ", dtype, " (allowed: bool to complex128, 0 to ",
                           all_dtype_count - 1, ")"));
}

void throw_byte_overflow(const char* operation, std::int64_t numel, DType dtype) {
  throw ShapeError(message(operation, ": the byte count of ", numel, " elements of ", dtype,
                           " overflows (allowed: at most ", INT64_MAX, " bytes)"));
}

}  // namespace extensor::detail
