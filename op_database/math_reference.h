// The expected values of the vector math functions, written independently of the library: plain
// libm in a wider type (double for float, x87 long double for double), with first-order corrections
// where rounding the argument would already cost more than the tolerance.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

namespace math_reference {

template <class W>
inline constexpr W kSqrtHalf = W(0.707106781186547524400844362104849039L);
template <class W>
inline constexpr W kSqrtHalfRest = W((kSqrtHalf<long double> -
                                      static_cast<long double>(kSqrtHalf<W>)) +
                                     (1.8950325588932570797e-20L));

// erfc(x / sqrt(2)), with the rounding of the quotient corrected to first order.
template <class W>
W erfc_of_scaled(W x) {
  const W z = x * kSqrtHalf<W>;
  const W value = std::erfc(z);
  if (!std::isfinite(z) || value == 0) return value;
  const W rest = std::fma(x, kSqrtHalf<W>, -z) + x * kSqrtHalfRest<W>;
  const W slope = W(-1.128379167095512573896158903121545172L) * std::exp(-z * z);
  return value + slope * rest;
}

// The root of erf(y) = x by Newton's method; beyond the middle, of log erfc(y) = log(1 - x).
template <class W>
W erfinv(W x) {
  const W a = std::fabs(x);
  if (!(a <= 1)) return std::numeric_limits<W>::quiet_NaN();
  if (a == 1) return std::copysign(std::numeric_limits<W>::infinity(), x);
  constexpr W slope_at_0 = W(1.128379167095512573896158903121545172L);
  W y = a < W(0.6) ? a / slope_at_0 : std::sqrt(-std::log(1 - a));
  for (int k = 0; k < 9; ++k) {
    const W slope = slope_at_0 * std::exp(-y * y);
    if (a < W(0.6)) {
      y -= (std::erf(y) - a) / slope;
    } else {
      const W complement = std::erfc(y);
      y += std::log(complement / (1 - a)) * complement / slope;
    }
  }
  return std::copysign(y, x);
}

template <class W>
W normal_cdf(W x) {
  return W(0.5) * erfc_of_scaled(-x);
}

template <class W>
W normal_pdf(W x) {
  const W square = x * x;
  if (!std::isfinite(square)) return x != x ? x : W(0);
  const W rest = std::fma(x, x, -square);
  const W power = std::exp(W(-0.5) * square);
  if (power == 0) return 0;
  return W(0.398942280401432677939946059934381868L) * power * (1 - W(0.5) * rest);
}

// Without the global variable that std::lgamma writes.
template <class W>
W log_gamma(W x) {
  int sign = 0;
  return static_cast<W>(::lgammal_r(x, &sign));
}

// The functions up to polygamma are for F = long double or __float128, which <cmath> lacks.

// atanh(t) for |t| <= 1/3.
template <class F>
F atanh_of_small(F t) {
  F power = t, sum = 0;
  for (int k = 0; k < 40; ++k) {
    sum += power / (2 * k + 1);
    power *= t * t;
  }
  return sum;
}

template <class F>
F wide_log(F x) {
  static const F ln2 = 2 * atanh_of_small(F(1) / 3);
  int exponent = 0;
  std::frexp(static_cast<long double>(x), &exponent);
  const F mantissa = x * F(std::ldexp(1.0L, -exponent));
  return exponent * ln2 + 2 * atanh_of_small((mantissa - 1) / (mantissa + 1));
}

// cot(pi f) for |f| <= 1/2.
template <class F>
F cot_of_pi(F f) {
  const F pi = F(3.14159265358979323851280895940618620443L) - F(5.0165576126683320236e-20L);
  const F distance = f < 0 ? -f : f;
  const F angle = pi * (distance > F(0.25) ? F(0.5) - distance : distance);
  F sine = 0, cosine = 0, term = 1;
  for (int k = 0; k < 28; k += 2) {
    cosine += term;
    term *= angle / (k + 1);
    sine += term;
    term *= -angle / (k + 2);
  }
  const F cot = distance > F(0.25) ? sine / cosine : cosine / sine;
  return f < 0 ? -cot : cot;
}

// The derivative of order n of pi cot(pi x), a polynomial in c = cot(pi x), from c' = -pi (1 +
// c^2).
template <class F>
F cot_derivative(int n, F c) {
  const F pi = F(3.14159265358979323851280895940618620443L) - F(5.0165576126683320236e-20L);
  std::vector<F> coefficients = {0, pi};
  for (int order = 0; order < n; ++order) {
    std::vector<F> next(coefficients.size() + 1, F(0));
    for (std::size_t k = 1; k < coefficients.size(); ++k) {
      const F slope = -pi * F(static_cast<int>(k)) * coefficients[k];
      next[k - 1] += slope;
      next[k + 1] += slope;
    }
    coefficients = next;
  }
  F value = 0;
  for (std::size_t k = coefficients.size(); k-- > 0;) value = value * c + coefficients[k];
  return value;
}

// The derivative of order n of digamma for y > 0: the recurrence up to 40 + n, then the asymptotic
// series with Bernoulli's numbers.
template <class F>
F polygamma_above_0(int n, F y) {
  const double bernoulli[15][2] = {{1, 6},
                                   {-1, 30},
                                   {1, 42},
                                   {-1, 30},
                                   {5, 66},
                                   {-691, 2730},
                                   {7, 6},
                                   {-3617, 510},
                                   {43867, 798},
                                   {-174611, 330},
                                   {854513, 138},
                                   {-236364091, 2730},
                                   {8553103, 6},
                                   {-23749461029, 870},
                                   {8615841276005, 14322}};
  const auto factorial_over_power = [n](F x) {
    F value = 1 / x;
    for (int k = 1; k <= n; ++k) value *= k / x;
    return value;
  };
  F sum = 0;
  for (; y < 40 + n; y += 1) sum += factorial_over_power(y);
  // The integral of n! / x^(n + 1) from y on; for n = 0 without its infinite part.
  sum += n == 0 ? -wide_log(y) : factorial_over_power(y) * y / n;
  sum += factorial_over_power(y) / 2;
  F rising = factorial_over_power(y) / y * (n + 1) / 2;  // (n + 2k - 1)! / (2k)! / y^(n + 2k)
  for (int k = 1; k <= 15; ++k) {
    sum += F(bernoulli[k - 1][0]) / F(bernoulli[k - 1][1]) * rising;
    rising *= F(n + 2 * k) * F(n + 2 * k + 1) / (F(2 * k + 1) * F(2 * k + 2)) / (y * y);
  }
  return n % 2 == 0 ? -sum : sum;
}

template <class W>
W polygamma(int n, W x) {
  using F = std::conditional_t<std::is_same_v<W, double>, long double, __float128>;
  constexpr W infinity = std::numeric_limits<W>::infinity();
  if (x != x) return x;
  if (x == infinity) return n == 0 ? x : n % 2 == 0 ? W(-0.0) : W(0);
  if (x == 0) return n % 2 == 0 ? -1 / x : infinity;
  if (x > 0) return static_cast<W>(polygamma_above_0(n, F(x)));
  const W fraction = x - std::nearbyint(x);
  if (x == -infinity || (fraction == 0 && n % 2 == 0)) return std::numeric_limits<W>::quiet_NaN();
  if (fraction == 0) return infinity;
  const F mirrored = polygamma_above_0(n, 1 - F(x));
  const F cot = cot_derivative(n, cot_of_pi(F(fraction)));
  return static_cast<W>((n % 2 == 0 ? mirrored : -mirrored) - cot);
}

template <class W>
W gelu(W x) {
  if (x == -std::numeric_limits<W>::infinity()) return W(-0.0);
  return x * normal_cdf(x);
}

// 0.5 x (1 + tanh u) = x / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3) in twice the width.
template <class W>
W gelu_tanh(W x) {
  if (x != x) return x;
  if (std::abs(x) > 100) return x > 0 ? x : W(-0.0);
  const __float128 wide = x;
  const __float128 scale =
      __float128(0.797884560802865355879892119868763737L) + (2.675588877860239146e-20L);
  const __float128 cubic = __float128(0.044715L) + (5.1174342541315809285e-22L);
  const __float128 exponent = -2 * scale * (wide + cubic * wide * wide * wide);
  const W high = static_cast<W>(exponent);
  const W low = static_cast<W>(exponent - static_cast<__float128>(high));
  return x / (1 + std::exp(high) * (1 + low));
}

template <class W>
W sigmoid(W x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}

template <class W>
W softplus(W x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}

template <class W>
W mish(W x) {
  if (x == -std::numeric_limits<W>::infinity()) return W(-0.0);
  return x * std::tanh(softplus(x));
}

template <class W>
W silu(W x) {
  if (x == -std::numeric_limits<W>::infinity()) return W(-0.0);
  return x < 0 ? x * (std::exp(x) / (1 + std::exp(x))) : x / (1 + std::exp(-x));
}

template <class W>
W log_add_exp(W a, W b) {
  if (a != a || b != b) return a + b;
  if (a == b) return a + W(0.693147180559945309417232121458176568L);
  return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}

// NumPy's remainder, and floor_divide with the special cases of the Array API, on the exact values.
template <class T>
T floor_mod(T a, T b) {
  T remainder = std::fmod(a, b);
  if (remainder == 0) return std::copysign(T(0), b);
  if ((b < 0) != (remainder < 0)) remainder += b;
  return remainder;
}

// The quotient is an integer, and exact in 113 bits wherever T can hold it.
template <class W, class T>
W floor_divide(T a, T b) {
  if (std::isnan(a) || std::isnan(b) || (std::isinf(a) && std::isinf(b))) return T(NAN);
  if (std::isinf(a)) return std::signbit(a) == std::signbit(b) ? T(INFINITY) : -T(INFINITY);
  if (b == 0)
    return a == 0 ? T(NAN)
                  : std::copysign(T(INFINITY), std::copysign(T(1), a) * std::copysign(T(1), b));
  if (std::isinf(b)) return std::signbit(a) == std::signbit(b) ? T(0) : -T(0);
  const T remainder = std::fmod(a, b);
  __float128 quotient = (static_cast<__float128>(a) - remainder) / b;
  if (remainder != 0 && (b < 0) != (remainder < 0)) quotient -= 1;
  return quotient == 0 ? std::copysign(T(0), a / b) : static_cast<W>(quotient);
}

}  // namespace math_reference

// X(Name, reference of x). W is the wide type.
#define EXTENSOR_MATH_UNARY(X)                 \
  X(Exp, std::exp(x))                          \
  X(Exp2, std::exp2(x))                        \
  X(Expm1, std::expm1(x))                      \
  X(Log, std::log(x))                          \
  X(Log2, std::log2(x))                        \
  X(Log10, std::log10(x))                      \
  X(Log1p, std::log1p(x))                      \
  X(Cbrt, std::cbrt(x))                        \
  X(Rsqrt, W(1) / std::sqrt(x))                \
  X(Sin, std::sin(x))                          \
  X(Cos, std::cos(x))                          \
  X(Tan, std::tan(x))                          \
  X(Asin, std::asin(x))                        \
  X(Acos, std::acos(x))                        \
  X(Atan, std::atan(x))                        \
  X(Sinh, std::sinh(x))                        \
  X(Cosh, std::cosh(x))                        \
  X(Tanh, std::tanh(x))                        \
  X(Asinh, std::asinh(x))                      \
  X(Acosh, std::acosh(x))                      \
  X(Atanh, std::atanh(x))                      \
  X(Erf, std::erf(x))                          \
  X(Erfc, std::erfc(x))                        \
  X(Erfinv, math_reference::erfinv(x))         \
  X(NormalCdf, math_reference::normal_cdf(x))  \
  X(NormalPdf, math_reference::normal_pdf(x))  \
  X(LogGamma, math_reference::log_gamma(x))    \
  X(Digamma, math_reference::polygamma(0, x))  \
  X(Gelu, math_reference::gelu(x))             \
  X(GeluTanh, math_reference::gelu_tanh(x))    \
  X(Sigmoid, math_reference::sigmoid(x))       \
  X(Softplus, math_reference::softplus(x))     \
  X(LogSigmoid, -math_reference::softplus(-x)) \
  X(Mish, math_reference::mish(x))             \
  X(Silu, math_reference::silu(x))             \
  X(Round, std::nearbyint(x))                  \
  X(Floor, std::floor(x))                      \
  X(Ceil, std::ceil(x))                        \
  X(Trunc, std::trunc(x))

// X(Name, reference of a and b). T is the type under test.
#define EXTENSOR_MATH_BINARY(X)                                                         \
  X(Pow, std::pow(a, b))                                                                \
  X(Atan2, std::atan2(a, b))                                                            \
  X(Hypot, std::hypot(a, b))                                                            \
  X(LogAddExp, math_reference::log_add_exp(a, b))                                       \
  X(FloorMod, W(math_reference::floor_mod(static_cast<T>(a), static_cast<T>(b))))       \
  X(FloorDivide, math_reference::floor_divide<W>(static_cast<T>(a), static_cast<T>(b))) \
  X(CopySign, std::copysign(a, b))
