// The expected values of the rows of the op tables, by name, written independently of the library
// with libm in x87 long double. A new row needs a line here.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <string>

#include "op_database/math_reference.h"

namespace reference {

using Real = long double;
using Integer = __int128;

struct Parameters {
  Real p = 0, q = 0;
};

using Unary = std::function<Real(Real x, Parameters parameters)>;
using Binary = std::function<Real(Real a, Real b)>;
using IntegerUnary = std::function<Integer(Integer x, Integer p, Integer q)>;
using IntegerBinary = std::function<Integer(Integer a, Integer b)>;

inline Real clamp(Real x, Real lo, Real hi) { return x < lo ? lo : x > hi ? hi : x; }

inline Real sign(Real x) { return x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x; }

inline Real hard_swish(Real x) { return x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6; }

inline const std::map<std::string, Unary>& unary_references() {
  using P = Parameters;
  static const std::map<std::string, Unary> references = {
      {"negative", [](Real x, P) { return -x; }},
      {"positive", [](Real x, P) { return x; }},
      {"abs", [](Real x, P) { return std::fabs(x); }},
      {"square", [](Real x, P) { return x * x; }},
      {"sign", [](Real x, P) { return sign(x); }},
      {"reciprocal", [](Real x, P) { return 1 / x; }},
      {"ceil", [](Real x, P) { return std::ceil(x); }},
      {"floor", [](Real x, P) { return std::floor(x); }},
      {"round", [](Real x, P) { return std::nearbyint(x); }},
      {"trunc", [](Real x, P) { return std::trunc(x); }},
      {"clip", [](Real x, P with) { return clamp(x, with.p, with.q); }},
      {"exp", [](Real x, P) { return std::exp(x); }},
      {"exp2", [](Real x, P) { return std::exp2(x); }},
      {"expm1", [](Real x, P) { return std::expm1(x); }},
      {"log", [](Real x, P) { return std::log(x); }},
      {"log2", [](Real x, P) { return std::log2(x); }},
      {"log10", [](Real x, P) { return std::log10(x); }},
      {"log1p", [](Real x, P) { return std::log1p(x); }},
      {"sqrt", [](Real x, P) { return std::sqrt(x); }},
      {"rsqrt", [](Real x, P) { return 1 / std::sqrt(x); }},
      {"cbrt", [](Real x, P) { return std::cbrt(x); }},
      {"sin", [](Real x, P) { return std::sin(x); }},
      {"cos", [](Real x, P) { return std::cos(x); }},
      {"tan", [](Real x, P) { return std::tan(x); }},
      {"asin", [](Real x, P) { return std::asin(x); }},
      {"acos", [](Real x, P) { return std::acos(x); }},
      {"atan", [](Real x, P) { return std::atan(x); }},
      {"sinh", [](Real x, P) { return std::sinh(x); }},
      {"cosh", [](Real x, P) { return std::cosh(x); }},
      {"tanh", [](Real x, P) { return std::tanh(x); }},
      {"asinh", [](Real x, P) { return std::asinh(x); }},
      {"acosh", [](Real x, P) { return std::acosh(x); }},
      {"atanh", [](Real x, P) { return std::atanh(x); }},
      {"erf", [](Real x, P) { return std::erf(x); }},
      {"erfinv", [](Real x, P) { return math_reference::erfinv(x); }},
      {"normal_cdf", [](Real x, P) { return math_reference::normal_cdf(x); }},
      {"normal_pdf", [](Real x, P) { return math_reference::normal_pdf(x); }},
      {"lgamma", [](Real x, P) { return math_reference::log_gamma(x); }},
      {"digamma", [](Real x, P) { return math_reference::polygamma(0, x); }},
      {"polygamma",
       [](Real x, P with) { return math_reference::polygamma(static_cast<int>(with.p), x); }},
      {"relu", [](Real x, P) { return x > 0 || x != x ? x : 0; }},
      {"leaky_relu", [](Real x, P with) { return x > 0 ? x : with.p * x; }},
      {"relu6", [](Real x, P) { return clamp(x, 0, 6); }},
      {"sigmoid", [](Real x, P) { return math_reference::sigmoid(x); }},
      {"log_sigmoid", [](Real x, P) { return -math_reference::softplus(-x); }},
      {"gelu", [](Real x, P) { return math_reference::gelu(x); }},
      {"gelu_tanh", [](Real x, P) { return math_reference::gelu_tanh(x); }},
      {"elu", [](Real x, P with) { return x > 0 ? x : with.p * std::expm1(x); }},
      {"selu",
       [](Real x, P) {
         const Real alpha = 1.6732632423543772848170429916717L;
         return 1.0507009873554804934193349852946L * (x > 0 ? x : alpha * std::expm1(x));
       }},
      {"silu", [](Real x, P) { return math_reference::silu(x); }},
      {"mish", [](Real x, P) { return math_reference::mish(x); }},
      {"softplus", [](Real x, P with) { return math_reference::softplus(with.p * x) / with.p; }},
      {"hard_sigmoid", [](Real x, P) { return clamp((x + 3) / 6, 0, 1); }},
      {"hard_swish", [](Real x, P) { return hard_swish(x); }},
      {"hard_tanh", [](Real x, P with) { return clamp(x, with.p, with.q); }},
  };
  return references;
}

inline const std::map<std::string, Binary>& binary_references() {
  static const std::map<std::string, Binary> references = {
      {"add", [](Real a, Real b) { return a + b; }},
      {"subtract", [](Real a, Real b) { return a - b; }},
      {"multiply", [](Real a, Real b) { return a * b; }},
      {"divide", [](Real a, Real b) { return a / b; }},
      {"floor_divide", [](Real a, Real b) { return math_reference::floor_divide<Real>(a, b); }},
      {"modulo", [](Real a, Real b) { return math_reference::floor_mod(a, b); }},
      {"power", [](Real a, Real b) { return std::pow(a, b); }},
      {"maximum", [](Real a, Real b) { return a != a || a > b ? a : b; }},
      {"minimum", [](Real a, Real b) { return a != a || a < b ? a : b; }},
      {"atan2", [](Real a, Real b) { return std::atan2(a, b); }},
      {"hypot", [](Real a, Real b) { return std::hypot(a, b); }},
      {"copysign", [](Real a, Real b) { return std::copysign(a, b); }},
      {"logaddexp", [](Real a, Real b) { return math_reference::log_add_exp(a, b); }},
      {"prelu", [](Real a, Real b) { return a > 0 ? a : a * b; }},
  };
  return references;
}

// On integers, before the result wraps to its dtype.
inline const std::map<std::string, IntegerUnary>& integer_unary_references() {
  static const std::map<std::string, IntegerUnary> references = {
      {"negative", [](Integer x, Integer, Integer) { return -x; }},
      {"positive", [](Integer x, Integer, Integer) { return x; }},
      {"abs", [](Integer x, Integer, Integer) { return x < 0 ? -x : x; }},
      {"square",
       [](Integer x, Integer, Integer) {
         // Modulo 2¹²⁸, of which the result keeps the low bits.
         return static_cast<Integer>(static_cast<unsigned __int128>(x) *
                                     static_cast<unsigned __int128>(x));
       }},
      {"sign", [](Integer x, Integer, Integer) { return Integer{(x > 0) - (x < 0)}; }},
      {"ceil", [](Integer x, Integer, Integer) { return x; }},
      {"floor", [](Integer x, Integer, Integer) { return x; }},
      {"round", [](Integer x, Integer, Integer) { return x; }},
      {"trunc", [](Integer x, Integer, Integer) { return x; }},
      {"relu", [](Integer x, Integer, Integer) { return x > 0 ? x : 0; }},
      {"clip", [](Integer x, Integer p, Integer q) { return x < p   ? p
                                                            : x > q ? q
                                                                    : x; }},
  };
  return references;
}

inline Integer floor_quotient(Integer a, Integer b) {
  const Integer quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

inline Integer wrapping_power(Integer base, Integer exponent) {
  unsigned __int128 result = 1;
  for (Integer i = 0; i < exponent; ++i) result *= static_cast<unsigned __int128>(base);
  return static_cast<Integer>(result);
}

inline const std::map<std::string, IntegerBinary>& integer_binary_references() {
  static const std::map<std::string, IntegerBinary> references = {
      {"add", [](Integer a, Integer b) { return a + b; }},
      {"subtract", [](Integer a, Integer b) { return a - b; }},
      {"multiply",
       [](Integer a, Integer b) {
         return static_cast<Integer>(static_cast<unsigned __int128>(a) *
                                     static_cast<unsigned __int128>(b));
       }},
      {"floor_divide", floor_quotient},
      {"modulo", [](Integer a, Integer b) { return a - floor_quotient(a, b) * b; }},
      {"power", wrapping_power},
      {"maximum", [](Integer a, Integer b) { return a > b ? a : b; }},
      {"minimum", [](Integer a, Integer b) { return a < b ? a : b; }},
  };
  return references;
}

}  // namespace reference
