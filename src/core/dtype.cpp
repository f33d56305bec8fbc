#include "extensor/dtype.h"

#include <algorithm>

#include "core/check.h"
#include "core/visit.h"
#include "extensor/scalar.h"

namespace extensor {

namespace {

// The signed integer that holds every value of `unsigned_dtype`; uint64 has none.
DType next_wider_signed(DType unsigned_dtype) {
  switch (unsigned_dtype) {
    case DType::uint8:
      return DType::int16;
    case DType::uint16:
      return DType::int32;
    default:
      return DType::int64;
  }
}

}  // namespace

DType promote_types(DType a, DType b, const char* operation) {
  if (a == b) return a;
  detail::check_dtype(operation, a);
  detail::check_dtype(operation, b);
  if (a == DType::bool_) return b;
  if (b == DType::bool_) return a;
  if (is_complex(a) || is_complex(b)) {
    const bool wide = real_dtype(a) == DType::float64 || real_dtype(b) == DType::float64;
    return wide ? DType::complex128 : DType::complex64;
  }
  // Both are numbers from here on. Within a kind, the enumeration runs from narrow to wide.
  if (is_floating_point(a) && is_floating_point(b)) {
    if (is_half(a) && is_half(b)) return DType::float32;
    return std::max(a, b);
  }
  if (is_floating_point(a)) return a;
  if (is_floating_point(b)) return b;
  if (is_signed_integer(a) == is_signed_integer(b)) return std::max(a, b);
  const DType signed_one = is_signed_integer(a) ? a : b;
  const DType unsigned_one = is_signed_integer(a) ? b : a;
  if (unsigned_one == DType::uint64) {
    throw DTypeError(detail::message(operation, ": ", a, " and ", b,
                                     " have no common dtype (uint64 goes with unsigned integers, "
                                     "bool and floats; convert one of them with to())"));
  }
  return std::max(signed_one, next_wider_signed(unsigned_one));
}

DType promote_with_scalar(DType tensor, const Scalar& scalar) {
  switch (scalar.kind()) {
    case Scalar::Kind::boolean:
      return tensor;
    case Scalar::Kind::integer:
    case Scalar::Kind::unsigned_integer:
      return tensor == DType::bool_ ? scalar.default_dtype() : tensor;
    case Scalar::Kind::floating:
      return is_differentiable(tensor) ? tensor : default_float;
    case Scalar::Kind::complex:
      return complex_dtype(tensor);
  }
  __builtin_unreachable();
}

namespace detail {

void throw_not_real(DType dtype) {
  throw DTypeError(message("kernel: dtype is ", dtype, " (allowed: a real dtype)"));
}

void throw_complex_number(std::complex<double> value) {
  throw DTypeError(message("number: ", Scalar(value), " is complex (allowed here: a real number)"));
}

}  // namespace detail

}  // namespace extensor
