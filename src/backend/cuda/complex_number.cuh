// Complex numbers with parts of double as device code, with the special cases of C99, Annex G, as
// the C library has them on the CPU. Numbers with parts of float are computed in double, too, and
// rounded once: these GPUs compute double at half the speed of float, and memory takes longer.
#pragma once

#include <thrust/complex.h>

#include <cmath>

#include "backend/complex_words.h"

namespace extensor::backend::cuda {

struct ComplexNumber {
  using value_type = double;
  double re, im;

  ComplexNumber() = default;
  EXTENSOR_COMPLEX_WORD ComplexNumber(double x, double y = 0) : re(x), im(y) {}  // NOLINT: implicit
  EXTENSOR_COMPLEX_WORD double real() const { return re; }
  EXTENSOR_COMPLEX_WORD double imag() const { return im; }
};

EXTENSOR_COMPLEX_WORD ComplexNumber operator+(ComplexNumber a, ComplexNumber b) {
  return {a.re + b.re, a.im + b.im};
}
EXTENSOR_COMPLEX_WORD ComplexNumber operator-(ComplexNumber a, ComplexNumber b) {
  return {a.re - b.re, a.im - b.im};
}
EXTENSOR_COMPLEX_WORD ComplexNumber operator-(ComplexNumber z) { return {-z.re, -z.im}; }
EXTENSOR_COMPLEX_WORD bool operator==(ComplexNumber a, ComplexNumber b) {
  return a.re == b.re && a.im == b.im;
}
EXTENSOR_COMPLEX_WORD bool operator!=(ComplexNumber a, ComplexNumber b) { return !(a == b); }
EXTENSOR_COMPLEX_WORD ComplexNumber conj(ComplexNumber z) { return {z.re, -z.im}; }

// 1 or 0 for an infinite or finite part, and 0 for NaN, with its sign.
EXTENSOR_COMPLEX_WORD double boxed(double part) {
  return std::copysign(std::isinf(part) ? 1.0 : 0.0, part);
}
EXTENSOR_COMPLEX_WORD double zero_if_nan(double part) {
  return std::isnan(part) ? std::copysign(0.0, part) : part;
}

// The product of C99, Annex G.5.1: an infinite operand that is not multiplied by 0 makes the
// product infinite, whatever NaN arises.
EXTENSOR_COMPLEX_WORD ComplexNumber operator*(ComplexNumber first, ComplexNumber second) {
  double a = first.re, b = first.im, c = second.re, d = second.im;
  const double ac = a * c, bd = b * d, ad = a * d, bc = b * c;
  const double x = ac - bd, y = ad + bc;
  if (!(std::isnan(x) && std::isnan(y))) return {x, y};
  bool infinite = false;
  if (std::isinf(a) || std::isinf(b)) {
    a = boxed(a), b = boxed(b);
    c = zero_if_nan(c), d = zero_if_nan(d);
    infinite = true;
  }
  if (std::isinf(c) || std::isinf(d)) {
    c = boxed(c), d = boxed(d);
    a = zero_if_nan(a), b = zero_if_nan(b);
    infinite = true;
  }
  if (!infinite && (std::isinf(ac) || std::isinf(bd) || std::isinf(ad) || std::isinf(bc))) {
    a = zero_if_nan(a), b = zero_if_nan(b);
    c = zero_if_nan(c), d = zero_if_nan(d);
    infinite = true;
  }
  if (!infinite) return {x, y};
  constexpr double inf = HUGE_VAL;
  return {inf * (a * c - b * d), inf * (a * d + b * c)};
}

// (a + ib) / (c + id) where |c| ≥ |d|.
EXTENSOR_COMPLEX_WORD ComplexNumber divide_ordered(double a, double b, double c, double d) {
  const double ratio = d / c, divisor = d * ratio + c;
  if (std::fabs(ratio) > 0x1p-1022) return {(a + b * ratio) / divisor, (b - a * ratio) / divisor};
  return {(a + d * (b / c)) / divisor, (b - d * (a / c)) / divisor};
}

// The quotient of C99, Annex G.5.1, scaled as Baudin and Smith propose.
EXTENSOR_COMPLEX_WORD ComplexNumber operator/(ComplexNumber first, ComplexNumber second) {
  double a = first.re, b = first.im, c = second.re, d = second.im;
  constexpr double big = 0x1p1023, tiny = 0x1p-1022, small = 0x1p-52, grow = 0x1p52;
  const bool turned = std::fabs(c) < std::fabs(d);
  if (std::fabs(turned ? d : c) >= big) a /= 2, b /= 2, c /= 2, d /= 2;
  const double larger = std::fabs(turned ? d : c);
  const bool loses = larger < big * small && std::fabs(a) < big * small &&
                     std::fabs(b) < big * small && (std::fabs(a) < tiny || std::fabs(b) < tiny);
  if (larger < small || loses) a *= grow, b *= grow, c *= grow, d *= grow;
  // Turned, both are multiplied by −i.
  const ComplexNumber quotient = turned ? divide_ordered(b, -a, d, -c) : divide_ordered(a, b, c, d);
  if (!(std::isnan(quotient.re) && std::isnan(quotient.im))) return quotient;
  constexpr double inf = HUGE_VAL;
  if (c == 0 && d == 0 && (!std::isnan(a) || !std::isnan(b))) {
    return {std::copysign(inf, c) * a, std::copysign(inf, c) * b};
  }
  if ((std::isinf(a) || std::isinf(b)) && std::isfinite(c) && std::isfinite(d)) {
    a = boxed(a), b = boxed(b);
    return {inf * (a * c + b * d), inf * (b * c - a * d)};
  }
  if ((std::isinf(c) || std::isinf(d)) && std::isfinite(a) && std::isfinite(b)) {
    c = boxed(c), d = boxed(d);
    return {0.0 * (a * c + b * d), 0.0 * (b * c - a * d)};
  }
  return quotient;
}

EXTENSOR_COMPLEX_WORD double abs(ComplexNumber z) { return std::hypot(z.re, z.im); }

// ---- functions that thrust has from FreeBSD's libm

EXTENSOR_COMPLEX_WORD thrust::complex<double> as_thrust(ComplexNumber z) { return {z.re, z.im}; }
EXTENSOR_COMPLEX_WORD ComplexNumber from_thrust(thrust::complex<double> z) {
  return {z.real(), z.imag()};
}
#define EXTENSOR_FROM_THRUST(name)                            \
  EXTENSOR_COMPLEX_WORD ComplexNumber name(ComplexNumber z) { \
    return from_thrust(thrust::name(as_thrust(z)));           \
  }
EXTENSOR_FROM_THRUST(exp)
EXTENSOR_FROM_THRUST(sinh)
EXTENSOR_FROM_THRUST(cosh)
EXTENSOR_FROM_THRUST(asinh)
EXTENSOR_FROM_THRUST(atanh)
EXTENSOR_FROM_THRUST(acos)
#undef EXTENSOR_FROM_THRUST

EXTENSOR_COMPLEX_WORD ComplexNumber sqrt(ComplexNumber z) {
  // Subnormal parts have too few digits.
  const bool tiny = std::fabs(z.re) < 0x1p-1000 && std::fabs(z.im) < 0x1p-1000;
  if (!tiny) return from_thrust(thrust::sqrt(as_thrust(z)));
  const ComplexNumber root =
      from_thrust(thrust::sqrt(thrust::complex<double>(z.re * 0x1p200, z.im * 0x1p200)));
  return {root.re * 0x1p-100, root.im * 0x1p-100};
}
EXTENSOR_COMPLEX_WORD ComplexNumber tanh(ComplexNumber z) {
  // thrust follows C99; C11 keeps the 0.
  if (z.re == 0 && !std::isfinite(z.im)) return {z.re, z.im - z.im};
  return from_thrust(thrust::tanh(as_thrust(z)));
}
EXTENSOR_COMPLEX_WORD ComplexNumber acosh(ComplexNumber z) {
  if (z.re == 0 && std::isnan(z.im)) return {z.im, 1.57079632679489661923};
  return from_thrust(thrust::acosh(as_thrust(z)));
}

// f(z) = −i g(iz).
EXTENSOR_COMPLEX_WORD ComplexNumber turned(ComplexNumber z) { return {-z.im, z.re}; }
EXTENSOR_COMPLEX_WORD ComplexNumber turned_back(ComplexNumber z) { return {z.im, -z.re}; }
EXTENSOR_COMPLEX_WORD ComplexNumber sin(ComplexNumber z) { return turned_back(sinh(turned(z))); }
EXTENSOR_COMPLEX_WORD ComplexNumber cos(ComplexNumber z) { return cosh(turned(z)); }
EXTENSOR_COMPLEX_WORD ComplexNumber tan(ComplexNumber z) { return turned_back(tanh(turned(z))); }
EXTENSOR_COMPLEX_WORD ComplexNumber asin(ComplexNumber z) { return turned_back(asinh(turned(z))); }
EXTENSOR_COMPLEX_WORD ComplexNumber atan(ComplexNumber z) { return turned_back(atanh(turned(z))); }

// ---- logarithms

// The sum of a and b, and what it lacks of the exact one.
struct ExactSum {
  double sum, rest;
};
EXTENSOR_COMPLEX_WORD ExactSum exact_sum(double a, double b) {
  const double sum = a + b, part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}

// a + x² + y² with the digits that cancel.
EXTENSOR_COMPLEX_WORD double plus_squares(double a, double x, double y) {
  const double xx = x * x, yy = y * y;
  const ExactSum first = exact_sum(a, xx), second = exact_sum(first.sum, yy);
  return second.sum + (first.rest + second.rest + (std::fma(x, x, -xx) + std::fma(y, y, -yy)));
}

EXTENSOR_COMPLEX_WORD ComplexNumber log(ComplexNumber z) {
  const double x = z.re, y = z.im, angle = std::atan2(y, x);
  const double larger = std::fmax(std::fabs(x), std::fabs(y));
  if (larger > 0.5 && larger < 2) {
    const double excess = plus_squares(-1, x, y);
    if (excess > -0.5 && excess < 3) return {std::log1p(excess) / 2, angle};
  }
  // Where the length would overflow or is subnormal, that of a multiple.
  if (larger > 0x1p1022 && std::isfinite(larger)) {
    return {std::log(std::hypot(x / 4, y / 4)) + 2 * 0.693147180559945309417232, angle};
  }
  if (larger < 0x1p-1000 && larger > 0) {
    return {std::log(std::hypot(x * 0x1p100, y * 0x1p100)) - 100 * 0.693147180559945309417232,
            angle};
  }
  return {std::log(std::hypot(x, y)), angle};
}

EXTENSOR_COMPLEX_WORD ComplexNumber log1p(ComplexNumber z) {
  // Where x² would overflow, z is as good as 1 + z.
  if (!(std::fabs(z.re) < 1e150 && std::fabs(z.im) < 1e150))
    return log(ComplexNumber(z.re + 1, z.im));
  return complex_words::log1p(z, [](double x, double y) { return plus_squares(2 * x, x, y); });
}

EXTENSOR_COMPLEX_WORD ComplexNumber pow(ComplexNumber a, ComplexNumber b) {
  return exp(b * log(a));
}

EXTENSOR_COMPLEX_WORD ComplexNumber power(ComplexNumber a, ComplexNumber b) {
  return complex_words::power(a, b);
}

}  // namespace extensor::backend::cuda
