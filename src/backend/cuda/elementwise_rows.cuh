// The rows of the op tables as device functions, and elements of any dtype as their arguments.
#pragma once

#include <concepts>
#include <limits>
#include <type_traits>

#include "backend/cuda/context.h"
#include "backend/cuda/elementwise_call.h"
#include "backend/cuda/row_functions.cuh"
#include "core/convert.h"

namespace extensor::cpu::N_CUDA {

// The numeric rows on integers.
namespace integers {
#include "backend/integer_value.h"

#define UNARY(...)
#define UNARY_NUMERIC(name, lo_, hi_, kinks, saved, forward, backward)           \
  template <class V>                                                             \
  struct name##_row {                                                            \
    static EXTENSOR_WORD V apply(const Parameter*, int, V x) { return forward; } \
  };
// Parameters wrap to the width of the integers.
#define UNARY_2_NUMERIC(name, p, q, lo_, hi_, kinks, saved, forward, backward)  \
  template <class V>                                                            \
  struct name##_row {                                                           \
    static EXTENSOR_WORD V apply(const Parameter* parameters, int shift, V x) { \
      const V p(wrapped<decltype(x.v)>(parameters[0].integer, shift));          \
      const V q(wrapped<decltype(x.v)>(parameters[1].integer, shift));          \
      return forward;                                                           \
    }                                                                           \
  };
template <class T>
EXTENSOR_WORD T wrapped(std::int64_t value, int shift) {
  const T moved = static_cast<T>(static_cast<std::uint64_t>(value) << shift);
  return static_cast<T>(moved >> shift);
}
#include "extensor/tables/unary.def"
#define BINARY(...)
#define BINARY_NUMERIC(name, lo, hi, kinks, forward, gradient_a, gradient_b)          \
  template <class V>                                                                  \
  struct name##_row {                                                                 \
    static EXTENSOR_WORD V apply(const Parameter*, int, V a, V b) { return forward; } \
  };
#define BINARY_NUMERIC_EPS BINARY_NUMERIC
#include "extensor/tables/binary.def"
#define BITWISE(name, expression)                                   \
  template <class V>                                                \
  struct name##_row {                                               \
    static EXTENSOR_WORD V apply(const Parameter*, int, V x, V y) { \
      const auto a = x.v, b = y.v;                                  \
      return static_cast<decltype(x.v)>(expression);                \
    }                                                               \
  };
#define BITWISE_UNARY(name, expression)                            \
  template <class V>                                               \
  struct name##_row {                                              \
    static EXTENSOR_WORD V apply(const Parameter*, int, V value) { \
      const auto x = value.v;                                      \
      return static_cast<decltype(value.v)>(expression);           \
    }                                                              \
  };
#include "extensor/tables/logical.def"
template <class V>
struct fma_row {
  static EXTENSOR_WORD V apply(const Parameter*, int, V a, V b, V c) { return a * b + c; }
};
}  // namespace integers

}  // namespace extensor::cpu::N_CUDA

namespace extensor::backend::cuda {

namespace rows_of = extensor::cpu::N_CUDA;

// ---- elements of any dtype

template <class C>
inline constexpr DType native = dtype_of<C>;

template <class T>
__device__ __forceinline__ T element(const std::byte* data, std::int64_t i) {
  return reinterpret_cast<const T*>(data)[i];
}

// As a float or double.
template <class C>
__device__ __noinline__ C convert_element(const std::byte* data, DType dtype, std::int64_t i) {
  switch (dtype) {
    case DType::bool_:
    case DType::uint8:
      return static_cast<C>(element<std::uint8_t>(data, i));
    case DType::int8:
      return static_cast<C>(element<std::int8_t>(data, i));
    case DType::int16:
      return static_cast<C>(element<std::int16_t>(data, i));
    case DType::int32:
      return static_cast<C>(element<std::int32_t>(data, i));
    case DType::int64:
      return static_cast<C>(element<std::int64_t>(data, i));
    case DType::uint16:
      return static_cast<C>(element<std::uint16_t>(data, i));
    case DType::uint32:
      return static_cast<C>(element<std::uint32_t>(data, i));
    case DType::uint64:
      return static_cast<C>(element<std::uint64_t>(data, i));
    case DType::float16:
      return static_cast<C>(__half2float(element<__half>(data, i)));
    case DType::bfloat16:
      return static_cast<C>(__bfloat162float(element<__nv_bfloat16>(data, i)));
    case DType::float32:
      return static_cast<C>(element<float>(data, i));
    case DType::float64:
      return static_cast<C>(element<double>(data, i));
    default:  // complex numbers are refused before
      return C(0);
  }
}

// As a 64-bit integer: integers wrap to the width 64 − shift, floats saturate to it.
template <class C>
__device__ __noinline__ C convert_to_integer(const std::byte* data, DType dtype, std::int64_t i,
                                             int shift) {
  static_assert(std::is_integral_v<C>);
  if (is_floating_point(dtype)) {
    const C value = detail::saturate<C>(convert_element<double>(data, dtype, i));
    const C highest = static_cast<C>(std::numeric_limits<C>::max() >> shift);
    const C lowest = static_cast<C>(std::numeric_limits<C>::min() >> shift);
    return value > highest ? highest : value < lowest ? lowest : value;
  }
  std::uint64_t bits = 0;
  switch (dtype) {
    case DType::int8:
      bits = static_cast<std::uint64_t>(std::int64_t{element<std::int8_t>(data, i)});
      break;
    case DType::int16:
      bits = static_cast<std::uint64_t>(std::int64_t{element<std::int16_t>(data, i)});
      break;
    case DType::int32:
      bits = static_cast<std::uint64_t>(std::int64_t{element<std::int32_t>(data, i)});
      break;
    case DType::uint16:
      bits = element<std::uint16_t>(data, i);
      break;
    case DType::uint32:
      bits = element<std::uint32_t>(data, i);
      break;
    case DType::int64:
    case DType::uint64:
      bits = element<std::uint64_t>(data, i);
      break;
    default:
      bits = element<std::uint8_t>(data, i);
      break;
  }
  return static_cast<C>(static_cast<C>(bits << shift) >> shift);
}

// Stores a number of a compute type as any dtype, by the rules of core/convert.h.
template <class C>
__device__ __noinline__ void store_element(std::byte* data, DType dtype, std::int64_t i, C value) {
  switch (dtype) {
    case DType::bool_:
      reinterpret_cast<std::uint8_t*>(data)[i] = value != C(0);
      break;
    case DType::int8:
      reinterpret_cast<std::int8_t*>(data)[i] = detail::convert<std::int8_t>(value);
      break;
    case DType::int16:
      reinterpret_cast<std::int16_t*>(data)[i] = detail::convert<std::int16_t>(value);
      break;
    case DType::int32:
      reinterpret_cast<std::int32_t*>(data)[i] = detail::convert<std::int32_t>(value);
      break;
    case DType::int64:
      reinterpret_cast<std::int64_t*>(data)[i] = detail::convert<std::int64_t>(value);
      break;
    case DType::uint8:
      reinterpret_cast<std::uint8_t*>(data)[i] = detail::convert<std::uint8_t>(value);
      break;
    case DType::uint16:
      reinterpret_cast<std::uint16_t*>(data)[i] = detail::convert<std::uint16_t>(value);
      break;
    case DType::uint32:
      reinterpret_cast<std::uint32_t*>(data)[i] = detail::convert<std::uint32_t>(value);
      break;
    case DType::uint64:
      reinterpret_cast<std::uint64_t*>(data)[i] = detail::convert<std::uint64_t>(value);
      break;
    case DType::float16:
      reinterpret_cast<std::uint16_t*>(data)[i] = detail::convert<Float16>(value).bits();
      break;
    case DType::bfloat16:
      reinterpret_cast<std::uint16_t*>(data)[i] = detail::convert<BFloat16>(value).bits();
      break;
    case DType::float32:
      reinterpret_cast<float*>(data)[i] = static_cast<float>(value);
      break;
    case DType::float64:
      reinterpret_cast<double*>(data)[i] = static_cast<double>(value);
      break;
    default:  // complex numbers are refused before
      break;
  }
}

template <class C>
__device__ __forceinline__ C load(const StridedCall& call, int operand, std::int64_t i) {
  const std::byte* data = call.data[operand];
  if (data == nullptr) {
    if constexpr (std::is_floating_point_v<C>) return static_cast<C>(call.number[operand].real);
    return static_cast<C>(call.number[operand].natural);
  }
  const DType dtype = call.dtype[operand];
  if (dtype == native<C>) return element<C>(data, i);
  if constexpr (std::is_floating_point_v<C>) {
    return convert_element<C>(data, dtype, i);
  } else {
    return convert_to_integer<C>(data, dtype, i, call.integer_shift);
  }
}

template <class C>
__device__ __forceinline__ void store(const StridedCall& call, std::int64_t i, C value) {
  if (call.dtype[0] == native<C>) {
    reinterpret_cast<C*>(call.data[0])[i] = value;
    return;
  }
  if constexpr (std::is_integral_v<C>) {
    value =
        static_cast<C>(static_cast<C>(static_cast<std::uint64_t>(value) << call.integer_shift) >>
                       call.integer_shift);
  }
  store_element<C>(call.data[0], call.dtype[0], i, value);
}

}  // namespace extensor::backend::cuda
