// Dispatch on what a kernel needs to know of a dtype, so that it is compiled for fewer types.
#pragma once

#include <cstddef>
#include <cstdint>

#include "extensor/dtype.h"
#include "extensor/float16.h"

namespace extensor::cpu {

// Calls f with an unsigned integer of `size` bytes, at most 8: for kernels that only move elements.
template <class Function>
void with_width(std::size_t size, Function&& f) {
  switch (size) {
    case 1:
      return f(std::uint8_t{});
    case 2:
      return f(std::uint16_t{});
    case 4:
      return f(std::uint32_t{});
    default:
      return f(std::uint64_t{});
  }
}

// An element of 16 bytes: a complex128.
struct SixteenBytes {
  std::uint64_t halves[2];
};

// The same for elements of any dtype.
template <class Function>
void with_any_width(std::size_t size, Function&& f) {
  if (size == sizeof(SixteenBytes)) return f(SixteenBytes{});
  with_width(size, f);
}

// Calls f.template operator()<T>() with the type of a float dtype.
template <class Function>
decltype(auto) visit_float(DType dtype, Function&& f) {
  switch (dtype) {
    case DType::float16:
      return f.template operator()<Float16>();
    case DType::bfloat16:
      return f.template operator()<BFloat16>();
    case DType::float32:
      return f.template operator()<float>();
    default:
      return f.template operator()<double>();
  }
}

// The same for all dtypes, with unsigned integers in place of signed ones: sums and products that
// wrap have the same bits in both.
template <class Function>
decltype(auto) visit_unsigned(DType dtype, Function&& f) {
  switch (dtype) {
    case DType::bool_:
      return f.template operator()<bool>();
    case DType::int8:
    case DType::uint8:
      return f.template operator()<std::uint8_t>();
    case DType::int16:
    case DType::uint16:
      return f.template operator()<std::uint16_t>();
    case DType::int32:
    case DType::uint32:
      return f.template operator()<std::uint32_t>();
    case DType::int64:
    case DType::uint64:
      return f.template operator()<std::uint64_t>();
    default:
      return visit_float(dtype, f);
  }
}

}  // namespace extensor::cpu
