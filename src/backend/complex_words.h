// Functions of complex numbers for which the C library has none, or not the result that ExTensor
// wants. The CPU computes them on std::complex<T>, CUDA on a type of its own with the same
// vocabulary: value_type, real(), imag(), + − · /, and abs, exp, log, sqrt, pow, tan and tanh,
// found by argument-dependent lookup.
#pragma once

#include <cmath>

#ifdef __CUDACC__
#define EXTENSOR_COMPLEX_WORD __host__ __device__ inline
#else
#define EXTENSOR_COMPLEX_WORD inline
#endif

namespace extensor::backend::complex_words {

template <class Z>
using Part = typename Z::value_type;

template <class Z>
EXTENSOR_COMPLEX_WORD bool is_finite(Z z) {
  return std::isfinite(z.real()) && std::isfinite(z.imag());
}
template <class Z>
EXTENSOR_COMPLEX_WORD bool is_nan(Z z) {
  return std::isnan(z.real()) || std::isnan(z.imag());
}
template <class Z>
EXTENSOR_COMPLEX_WORD bool is_infinite(Z z) {
  return std::isinf(z.real()) || std::isinf(z.imag());
}
template <class Z>
EXTENSOR_COMPLEX_WORD bool is_zero(Z z) {
  return z.real() == 0 && z.imag() == 0;
}

// A complex number of two real ones that were read as complex.
template <class Z>
EXTENSOR_COMPLEX_WORD Z joined(Z real, Z imag) {
  return Z(real.real(), imag.real());
}

// z · factor, part by part, so that an infinite part does not make the other one NaN.
template <class Z>
EXTENSOR_COMPLEX_WORD Z scaled(Z z, Part<Z> factor) {
  return Z(z.real() * factor, z.imag() * factor);
}

template <class Z>
EXTENSOR_COMPLEX_WORD Z reciprocal(Z z) {
  return Z(1) / z;
}

template <class Z>
EXTENSOR_COMPLEX_WORD Z exp2(Z z) {
  return exp(scaled(z, Part<Z>(0.693147180559945309417232121458176568L)));
}
template <class Z>
EXTENSOR_COMPLEX_WORD Z log2(Z z) {
  return scaled(log(z), 1 / Part<Z>(0.693147180559945309417232121458176568L));
}
template <class Z>
EXTENSOR_COMPLEX_WORD Z log10(Z z) {
  return scaled(log(z), 1 / Part<Z>(2.302585092994045684017991454684364208L));
}

template <class Z>
EXTENSOR_COMPLEX_WORD Z expm1(Z z) {
  using T = Part<Z>;
  const T x = z.real(), y = z.imag();
  if (!is_finite(z)) {
    const Z e = exp(z);
    return Z(e.real() - 1, e.imag());
  }
  // eˣ cos y − 1 = (eˣ − 1) cos y − 2 sin²(y/2), which does not cancel near 0. The standard asks
  // for a real part of +0 at −0, which the sum with 0 gives.
  const T half = std::sin(y / 2);
  return Z(std::expm1(x) * std::cos(y) - 2 * half * half + T(0),
           y == 0 ? y : std::exp(x) * std::sin(y));
}

// Where the real part of z is infinite, the standard asks for a zero with the sign of the imaginary
// part y. That of C11 has the sign of sin 2y.
template <class Z>
EXTENSOR_COMPLEX_WORD Z hyperbolic_tangent(Z z) {
  using T = Part<Z>;
  const T x = z.real(), y = z.imag();
  if (std::isinf(x) && std::isfinite(y)) return Z(std::copysign(T(1), x), std::copysign(T(0), y));
  return tanh(z);
}
// −i tanh(iz)
template <class Z>
EXTENSOR_COMPLEX_WORD Z tangent(Z z) {
  using T = Part<Z>;
  const T x = z.real(), y = z.imag();
  if (std::isinf(y) && std::isfinite(x)) return Z(std::copysign(T(0), x), std::copysign(T(1), y));
  return tan(z);
}

// excess(x, y) is |1 + z|² − 1 = x (2 + x) + y² for z = x + iy, in a type that has the digits which
// cancel where |1 + z| is near 1.
template <class Z, class Excess>
EXTENSOR_COMPLEX_WORD Z log1p(Z z, const Excess& excess) {
  using T = Part<Z>;
  const T x = z.real(), y = z.imag();
  const Z shifted(x + 1, y);
  if (!is_finite(z) || is_zero(shifted)) return log(shifted);
  const auto more = excess(x, y);
  using Wide = decltype(excess(x, y));
  const T angle = std::atan2(y, shifted.real());
  if (more > Wide(-0.5) && more < 3) return Z(static_cast<T>(std::log1p(more) / 2), angle);
  return Z(static_cast<T>(std::log(std::hypot(static_cast<Wide>(x) + 1, static_cast<Wide>(y)))),
           angle);
}

template <class Z>
EXTENSOR_COMPLEX_WORD Z sign(Z z) {
  using T = Part<Z>;
  if (is_zero(z)) return Z(0, 0);
  if (!is_finite(z)) return scaled(z, 1 / abs(z));
  // Scaled by a power of two first, so that |z| neither overflows nor loses digits.
  const T x = std::fabs(z.real()), y = std::fabs(z.imag());
  const int exponent = std::ilogb(x > y ? x : y);
  const Z near_one(std::scalbn(z.real(), -exponent), std::scalbn(z.imag(), -exponent));
  const T length = abs(near_one);
  return Z(near_one.real() / length, near_one.imag() / length);
}

// Parts of float are computed in double, whose exponents hold every intermediate product: Z has
// parts of double.
template <class Z>
EXTENSOR_COMPLEX_WORD Z power(Z a, Z b) {
  if (is_zero(b)) return Z(1);
  if (is_zero(a)) {
    if (b.real() > 0) return Z(0);
    const double nan = std::nan("");
    return Z(nan, nan);
  }
  if (b.imag() == 0) {
    const double exponent = b.real();
    if (exponent == 1) return a;
    if (exponent == 0.5) return sqrt(a);
    if (exponent == std::trunc(exponent) && std::fabs(exponent) <= 64) {
      // Exact products for small integers.
      auto n = static_cast<unsigned>(std::fabs(exponent));
      Z result(1), square = a;
      bool first = true;
      for (; n != 0; n >>= 1) {
        if ((n & 1) != 0) {
          result = first ? square : result * square;
          first = false;
        }
        if (n > 1) square = square * square;
      }
      return exponent < 0 ? Z(1) / result : result;
    }
  }
  return pow(a, b);
}

}  // namespace extensor::backend::complex_words
