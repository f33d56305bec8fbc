// The 15 element types, how they promote, and how they map to C++ types.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "extensor/export.h"
#include "extensor/float16.h"

EXTENSOR_BEGIN_API

namespace extensor {

// The real dtypes: X(name, C++ type). All code per dtype is generated from it.
#define EXTENSOR_DTYPES(X)          \
  X(bool_, bool)                    \
  X(int8, std::int8_t)              \
  X(int16, std::int16_t)            \
  X(int32, std::int32_t)            \
  X(int64, std::int64_t)            \
  X(uint8, std::uint8_t)            \
  X(uint16, std::uint16_t)          \
  X(uint32, std::uint32_t)          \
  X(uint64, std::uint64_t)          \
  X(float16, ::extensor::Float16)   \
  X(bfloat16, ::extensor::BFloat16) \
  X(float32, float)                 \
  X(float64, double)

// The complex dtypes. Kernels take them only where they say so; code that stores or moves elements
// of any dtype uses both lists.
#define EXTENSOR_COMPLEX_DTYPES(X)  \
  X(complex64, std::complex<float>) \
  X(complex128, std::complex<double>)
#define EXTENSOR_ALL_DTYPES(X) EXTENSOR_DTYPES(X) EXTENSOR_COMPLEX_DTYPES(X)

enum class DType : std::uint8_t {
#define EXTENSOR_ENUMERATE(name, type) name,
  EXTENSOR_ALL_DTYPES(EXTENSOR_ENUMERATE)
#undef EXTENSOR_ENUMERATE
};

// Lets users write extensor::float32 rather than extensor::DType::float32.
#define EXTENSOR_CONSTANT(name, type) inline constexpr DType name = DType::name;
EXTENSOR_ALL_DTYPES(EXTENSOR_CONSTANT)
#undef EXTENSOR_CONSTANT

inline constexpr int dtype_count = 13;      // of the real dtypes, which come first
inline constexpr int all_dtype_count = 15;  // with the complex ones
inline constexpr DType default_float = DType::float32;
inline constexpr DType default_integer = DType::int64;

namespace detail {
template <class T>
struct DTypeOf;
#define EXTENSOR_DTYPE_OF(name, type)           \
  template <>                                   \
  struct DTypeOf<type> {                        \
    static constexpr DType value = DType::name; \
  };
EXTENSOR_ALL_DTYPES(EXTENSOR_DTYPE_OF)
#undef EXTENSOR_DTYPE_OF
// long and long long are both 64 bits; the list names only one of them.
template <>
struct DTypeOf<std::conditional_t<std::is_same_v<std::int64_t, long>, long long, long>> {
  static constexpr DType value = DType::int64;
};
template <>
struct DTypeOf<std::conditional_t<std::is_same_v<std::uint64_t, unsigned long>, unsigned long long,
                                  unsigned long>> {
  static constexpr DType value = DType::uint64;
};
}  // namespace detail

// The dtype that stores a C++ type: dtype_of<float> is float32.
template <class T>
inline constexpr DType dtype_of = detail::DTypeOf<std::remove_cv_t<T>>::value;

// Whether the value is in the list: a DType cast from a number may be anything.
constexpr bool is_valid(DType dtype) { return static_cast<int>(dtype) < all_dtype_count; }

// The bytes of an element; 1 for an invalid DType, so that dividing by it is defined.
constexpr std::size_t itemsize(DType dtype) {
  constexpr std::size_t sizes[] = {
#define EXTENSOR_SIZE(name, type) sizeof(type),
      EXTENSOR_ALL_DTYPES(EXTENSOR_SIZE)
#undef EXTENSOR_SIZE
  };
  return is_valid(dtype) ? sizes[static_cast<int>(dtype)] : 1;
}

// The name as NumPy prints it: "float32", "bool", …; "invalid" for an invalid DType.
constexpr const char* name(DType dtype) {
  constexpr const char* names[] = {
#define EXTENSOR_NAME(name, type) #name,
      EXTENSOR_ALL_DTYPES(EXTENSOR_NAME)
#undef EXTENSOR_NAME
  };
  if (!is_valid(dtype)) return "invalid";
  return dtype == DType::bool_ ? "bool" : names[static_cast<int>(dtype)];
}

constexpr bool is_complex(DType dtype) {
  return dtype == DType::complex64 || dtype == DType::complex128;
}
// Whether the dtype is a real float: false for complex64 and complex128.
constexpr bool is_floating_point(DType dtype) {
  return dtype >= DType::float16 && dtype <= DType::float64;
}
// Whether tensors of this dtype have gradients: floats and complex numbers.
constexpr bool is_differentiable(DType dtype) { return dtype >= DType::float16; }

constexpr bool is_signed_integer(DType dtype) {
  return dtype >= DType::int8 && dtype <= DType::int64;
}
constexpr bool is_unsigned_integer(DType dtype) {
  return dtype >= DType::uint8 && dtype <= DType::uint64;
}
constexpr bool is_integer(DType dtype) {
  return is_signed_integer(dtype) || is_unsigned_integer(dtype);
}
constexpr bool is_half(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }

// The dtype of the real and imaginary parts: float32 for complex64, float64 for complex128. A real
// dtype is its own.
constexpr DType real_dtype(DType dtype) {
  if (dtype == DType::complex64) return DType::float32;
  return dtype == DType::complex128 ? DType::float64 : dtype;
}
// The complex dtype that holds a real one: complex128 for float64, complex64 for all others. A
// complex dtype is its own.
constexpr DType complex_dtype(DType dtype) {
  return dtype == DType::float64 || dtype == DType::complex128 ? DType::complex128
                                                               : DType::complex64;
}

// The common dtype of two tensors: same kind → the wider; signed with unsigned → the next wider
// signed; bool with a number → the number; integer with float → the float's; float16 with bfloat16
// → float32; complex with another → complex, whose parts are the common float (complex64 for an
// integer or a half, complex128 for float64). uint64 with a signed integer throws DTypeError, which
// names `operation`.
DType promote_types(DType a, DType b, const char* operation = "promote_types");

}  // namespace extensor

EXTENSOR_END_API
