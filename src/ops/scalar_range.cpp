#include "ops/scalar_range.h"

#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "core/check.h"
#include "core/make_tensor.h"
#include "core/visit.h"
#include "extensor/error.h"

namespace extensor::ops {

namespace {

template <class T>
bool fits(const Scalar& scalar) {
  switch (scalar.kind()) {
    case Scalar::Kind::floating: {
      const double value = scalar.as_double();
      return value >= static_cast<double>(std::numeric_limits<T>::min()) &&
             value < -2.0 * static_cast<double>(std::numeric_limits<std::make_signed_t<T>>::min()) *
                         (std::is_signed_v<T> ? 0.5 : 1.0);
    }
    case Scalar::Kind::unsigned_integer:
      return std::in_range<T>(scalar.as_unsigned());
    default:
      return std::in_range<T>(scalar.as_integer());
  }
}

}  // namespace

void check_scalar_stored(const char* operation, const char* argument, const Scalar& value,
                         DType dtype) {
  const auto refuse = [&](const char* allowed) {
    throw ValueError(detail::message(operation, ": ", argument, " is ", value, ", which ", dtype,
                                     " cannot hold (allowed: ", allowed, ")"));
  };
  if (!value.is_complex() && dtype == DType::bool_) {
    const double number = value.as_double();
    if (number != 0 && number != 1) refuse("false, true, 0 and 1");
  } else if (value.is_floating() && is_integer(dtype)) {
    const double number = value.as_double();
    if (std::isfinite(number) && number != std::trunc(number)) refuse("whole numbers");
  }
  check_scalar_fits(operation, value, dtype);
}

void check_scalar_fits(const char* operation, const Scalar& scalar, DType dtype) {
  if (scalar.is_complex() && !is_complex(dtype)) [[unlikely]] {
    throw DTypeError(detail::message(operation, ": ", scalar, " does not fit ", dtype,
                                     " (allowed: a real number)"));
  }
  if (!is_integer(dtype)) return;
  detail::visit_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      if (fits<T>(scalar)) return;
      using Limits = std::numeric_limits<T>;
      throw ValueError(detail::message(operation, ": ", scalar, " does not fit ", dtype,
                                       " (allowed: ", static_cast<std::int64_t>(Limits::min()),
                                       " to ", static_cast<std::uint64_t>(Limits::max()), ")"));
    }
  });
}

Tensor complex_number(const Scalar& value, DType dtype) {
  Tensor number = detail::make_empty("full", {}, dtype, cpu_device);
  if (dtype == DType::complex64) {
    *number.data<std::complex<float>>() = std::complex<float>(value.as_complex());
  } else {
    *number.data<std::complex<double>>() = value.as_complex();
  }
  return number;
}

}  // namespace extensor::ops
