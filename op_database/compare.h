// Distances between a result and its exact value, for every float format.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "extensor/extensor.h"

namespace extensor::compare {

struct Format {
  int digits;        // of the significand, including the hidden one
  int min_exponent;  // as in std::numeric_limits
  int max_exponent;
};

inline Format format_of(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return {11, -13, 16};
    case DType::bfloat16:
      return {8, -125, 128};
    case DType::float32:
      return {24, -125, 128};
    default:
      return {53, -1021, 1024};
  }
}

inline bool same_zero(long double a, long double b) {
  return a == 0 && b == 0 && std::signbit(a) == std::signbit(b);
}

// Rounds to nearest, ties to even, overflow to infinity: one rounding from long double to any
// format.
inline long double rounded_to(const Format& format, long double exact) {
  if (exact == 0 || !std::isfinite(exact)) return exact;
  const int exponent = std::max(std::ilogb(exact) + 1, format.min_exponent);
  const long double spacing = std::ldexp(1.0L, exponent - format.digits);
  const long double result = std::nearbyint(exact / spacing) * spacing;
  if (std::fabs(result) >= std::ldexp(1.0L, format.max_exponent)) {
    return std::copysign(std::numeric_limits<long double>::infinity(), exact);
  }
  return result == 0 ? std::copysign(0.0L, exact) : result;
}

// The distance in units of the last place of the exact value. NaN must match NaN, and a zero must
// match a zero of the same sign, also one that results from underflow. An infinity counts as the
// power of two above the largest finite number.
inline double ulp_error(const Format& format, long double got, long double exact) {
  if (got != got || exact != exact) return (got != got) == (exact != exact) ? 0 : 1e30;
  if (exact == 0) return same_zero(got, exact) ? 0 : 1e30;
  if (got == 0 && std::signbit(got) != std::signbit(exact)) return 1e30;
  const long double bound = std::ldexp(1.0L, format.max_exponent);
  const long double value = std::isinf(got) ? std::copysign(bound, got) : got;
  const long double target = std::fabs(exact) > bound ? std::copysign(bound, exact) : exact;
  const int exponent = std::clamp(std::ilogb(target) + 1, format.min_exponent, format.max_exponent);
  return static_cast<double>(std::fabs(value - target) /
                             std::ldexp(1.0L, exponent - format.digits));
}

// The elements in row-major order; double represents every float dtype exactly.
inline std::vector<double> values_of(const Tensor& x) {
  return x.to(DType::float64).to_vector<double>();
}

// Whether shape, dtype and bits are equal, with NaN equal to NaN.
inline bool identical(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  const Tensor x = a.to(cpu_device).contiguous(), y = b.to(cpu_device).contiguous();
  return std::equal(x.impl().data, x.impl().data + x.nbytes(), y.impl().data);
}

}  // namespace extensor::compare
