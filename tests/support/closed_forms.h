// Every row of the op tables as a formula of jets, written independently of the tables, with the
// points where its derivatives are checked. At a kink the formula follows docs/gradient-rules.md.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "op_database/math_reference.h"
#include "support/jet.h"

namespace closed_forms {

using jets::Jet;
using jets::Real;
using Parameters = std::vector<double>;

struct Unary {
  std::function<Jet(const Jet& x, const Parameters&)> formula;
  std::vector<double> points = {};  // in addition to common_points()
  // Where the function has derivatives.
  std::function<bool(double x)> is_inside = [](double) { return true; };
  // A rounding error of x by this much is allowed: 1 for functions that vary on the scale of 1, 0
  // for scale-invariant ones.
  double scale = 0;
  // The backward reads a result close to 1, whose rounding is an error of this size.
  double slack = 0;
  // Rows with eps: the argument that is floored, and the derivative where it is replaced by `eps`.
  std::function<Real(Real x)> floored = nullptr;
  std::function<Real(Real eps)> derivative_at_floor = nullptr;
};

inline std::vector<double> common_points() {
  std::vector<double> points = {0.0, -0.0};
  for (double x : {1e-100, 1e-30, 1e-12, 1e-10, 3e-10, 1e-8, 1e-5, 1e-3, 0.1,  0.3,
                   0.5,    0.9,   1.0,   1.5,   2.0,   2.7,  3.0,  5.0,  6.0,  8.0,
                   12.0,   20.0,  40.0,  90.0,  300.0, 1e4,  1e10, 1e30, 1e100}) {
    points.push_back(x);
    points.push_back(-x);
  }
  return points;
}

// A kink, and its nearest neighbours on both sides in float64 and in float32.
inline std::vector<double> around(std::initializer_list<double> kinks) {
  std::vector<double> points;
  for (double kink : kinks) {
    points.push_back(kink);
    for (double to : {-HUGE_VAL, HUGE_VAL}) {
      points.push_back(std::nextafter(kink, to));
      points.push_back(std::nextafterf(static_cast<float>(kink), static_cast<float>(to)));
      points.push_back(kink + std::copysign(1e-3, to));
    }
  }
  return points;
}

// Exact close to 1, and with exact derivatives close to 0.
inline Jet one_minus_square(const Jet& u) {
  return std::fabs(u.value()) < 0.5 ? 1 - u * u : (1 - u) * (1 + u);
}

// The derivative of order n of digamma; n = -1 is lgamma.
inline Jet polygamma(int n, const Jet& u) {
  const Real x = u.value();
  Jet::Series series{};
  Real factorial = 1;
  for (int k = 0; k <= Jet::order; ++k) {
    if (k > 0) factorial *= k;
    const Real value =
        n + k < 0 ? math_reference::log_gamma(x) : math_reference::polygamma(n + k, x);
    series[static_cast<std::size_t>(k)] = value / factorial;
  }
  return Jet::compose(series, u);
}

inline const std::map<std::string, Unary>& unary() {
  using P = const Parameters&;
  const auto positive = [](double x) { return x > 0; };
  const auto has_exp = [](double x) { return std::fabs(x) <= 1e4; };  // in long double
  const auto no_pole = [](double x) { return x > 0 || x != std::round(x); };
  const auto own = [](Real x) { return x; };
  const auto constant = [](const Jet&, P) { return Jet(0); };
  constexpr Real ln2 = 0.693147180559945309417232L, ln10 = 2.302585092994045684017991L;
  constexpr Real selu_scale = 1.0507009873554804934193349852946L;
  constexpr Real selu_alpha = 1.6732632423543772848170429916717L;
  static const std::map<std::string, Unary> forms = {
      {"negative", {.formula = [](const Jet& x, P) { return -x; }}},
      {"positive", {.formula = [](const Jet& x, P) { return x; }}},
      {"abs",
       {.formula = [](const Jet& x, P) { return x.value() == 0  ? 0
                                                : x.value() < 0 ? -x
                                                                : x; },
        .points = around({0})}},
      {"square", {.formula = [](const Jet& x, P) { return x * x; }}},
      {"sign", {.formula = constant, .points = around({0})}},
      {"reciprocal",
       {.formula = [](const Jet& x, P) { return 1 / x; },
        .is_inside = [](double x) { return x != 0; },
        .floored = own,
        .derivative_at_floor = [](Real eps) { return -1 / (eps * eps); }}},
      {"ceil", {.formula = constant, .points = around({-1, 0, 0.5, 1})}},
      {"floor", {.formula = constant, .points = around({-1, 0, 0.5, 1})}},
      {"round", {.formula = constant, .points = around({-1, 0, 0.5, 1})}},
      {"trunc", {.formula = constant, .points = around({-1, 0, 0.5, 1})}},
      {"clip",
       {.formula = [](const Jet& x,
                      P p) { return x.value() < p[0] || x.value() > p[1] ? Jet(0) : x; },
        .points = around({-1.5, 2})}},
      {"exp",
       {.formula = [](const Jet& x, P) { return exp(x); }, .is_inside = has_exp, .scale = 1}},
      {"exp2",
       {.formula = [](const Jet& x, P) { return exp(ln2 * x); }, .is_inside = has_exp, .scale = 1}},
      {"expm1",
       {.formula = [](const Jet& x, P) { return exp(x); }, .is_inside = has_exp, .scale = 1}},
      {"log",
       {.formula = [](const Jet& x, P) { return log(x); },
        .is_inside = positive,
        .floored = own,
        .derivative_at_floor = [](Real eps) { return 1 / eps; }}},
      {"log2",
       {.formula = [](const Jet& x, P) { return log(x) * (1 / ln2); },
        .is_inside = positive,
        .floored = own,
        .derivative_at_floor = [](Real eps) { return 1 / (eps * ln2); }}},
      {"log10",
       {.formula = [](const Jet& x, P) { return log(x) * (1 / ln10); },
        .is_inside = positive,
        .floored = own,
        .derivative_at_floor = [](Real eps) { return 1 / (eps * ln10); }}},
      {"log1p",
       {.formula = [](const Jet& x, P) { return log1p(x); },
        .points = {-1 + 1e-9, -1 + 1e-5, -0.99},
        .is_inside = [](double x) { return x > -1; },
        .scale = 1e-16,
        .floored = [](Real x) { return 1 + x; },
        .derivative_at_floor = [](Real eps) { return 1 / eps; }}},
      {"sqrt",
       {.formula = [](const Jet& x, P) { return sqrt(x); },
        .is_inside = positive,
        .floored = [](Real x) { return std::sqrt(x); },
        .derivative_at_floor = [](Real eps) { return 0.5L / eps; }}},
      {"rsqrt",
       {.formula = [](const Jet& x, P) { return pow(x, -0.5L); },
        .is_inside = positive,
        .floored = own,
        .derivative_at_floor = [](Real eps) { return -0.5L * std::pow(eps, -1.5L); }}},
      {"cbrt",
       {.formula = [](const Jet& x,
                      P) { return x.value() < 0 ? -pow(-x, 1 / 3.0L) : pow(x, 1 / 3.0L); },
        .is_inside = [](double x) { return x != 0; },
        .floored = [](Real x) { return std::cbrt(x); },
        .derivative_at_floor = [](Real eps) { return 1 / (3 * eps * eps); }}},
      {"sin", {.formula = [](const Jet& x, P) { return sin(x); }, .scale = 1}},
      {"cos", {.formula = [](const Jet& x, P) { return cos(x); }, .scale = 1}},
      {"tan",
       {.formula = [](const Jet& x, P) { return sin(x) / cos(x); },
        .points = {1.57, 1.5707963, -1.5707963},
        .scale = 1}},
      {"asin",
       {.formula =
            [](const Jet& x, P) {
              return integral(
                  std::asin(x.value()),
                  [](const Jet& u) { return pow(one_minus_square(u), -0.5L); }, x);
            },
        .points = {1 - 1e-11, -1 + 1e-11, 1 - 1e-5, 0.999},
        .is_inside = [](double x) { return std::fabs(x) < 1; },
        .scale = 1}},
      {"acos",
       {.formula =
            [](const Jet& x, P) {
              return -integral(
                  -std::acos(x.value()),
                  [](const Jet& u) { return pow(one_minus_square(u), -0.5L); }, x);
            },
        .points = {1 - 1e-11, -1 + 1e-11, 1 - 1e-5, 0.999},
        .is_inside = [](double x) { return std::fabs(x) < 1; },
        .scale = 1}},
      {"atan", {.formula = [](const Jet& x, P) { return atan(x); }, .scale = 1}},
      {"sinh", {.formula = [](const Jet& x, P) { return sinh(x); }, .is_inside = has_exp}},
      {"cosh", {.formula = [](const Jet& x, P) { return cosh(x); }, .is_inside = has_exp}},
      {"tanh", {.formula = [](const Jet& x, P) { return tanh(x); }, .scale = 1, .slack = 1}},
      {"asinh",
       {.formula =
            [](const Jet& x, P) {
              return integral(
                  std::asinh(x.value()), [](const Jet& u) { return pow(1 + u * u, -0.5L); }, x);
            },
        .scale = 1}},
      {"acosh",
       {.formula =
            [](const Jet& x, P) {
              return integral(
                  std::acosh(x.value()), [](const Jet& u) { return pow((u - 1) * (u + 1), -0.5L); },
                  x);
            },
        .points = {1 + 1e-11, 1 + 1e-5, 1.001},
        .is_inside = [](double x) { return x > 1; }}},
      {"atanh",
       {.formula =
            [](const Jet& x, P) {
              return integral(
                  std::atanh(x.value()), [](const Jet& u) { return 1 / one_minus_square(u); }, x);
            },
        .points = {1 - 1e-11, -1 + 1e-11, 1 - 1e-5, 0.999},
        .is_inside = [](double x) { return std::fabs(x) < 1; },
        .scale = 1}},
      {"erf",
       {.formula =
            [](const Jet& x, P) {
              return integral(
                  std::erf(x.value()),
                  [](const Jet& u) { return 1.128379167095512573896159L * exp(-u * u); }, x);
            },
        .scale = 1}},
      {"erfinv",
       {.formula =
            [](const Jet& x, P) {
              // Newton's method for erf(y) = x doubles the number of correct derivatives.
              Jet y = math_reference::erfinv<Real>(x.value());
              for (int k = 0; k < 3; ++k) {
                const auto slope = [](const Jet& u) {
                  return 1.128379167095512573896159L * exp(-u * u);
                };
                Jet error = integral(std::erf(y.value()), slope, y) - x;
                error = error - error.value();  // the value is exact
                y = y - error / slope(y);
              }
              return y;
            },
        .points = {0.99, -0.999, 1 - 1e-6},
        .is_inside = [](double x) { return std::fabs(x) < 1; },
        .scale = 1}},
      {"normal_cdf", {.formula = [](const Jet& x, P) { return normal_cdf(x); }, .scale = 1}},
      {"normal_pdf", {.formula = [](const Jet& x, P) { return normal_pdf(x); }, .scale = 1}},
      {"lgamma",
       {.formula = [](const Jet& x, P) { return polygamma(-1, x); },
        .points = {1.4616321449683623, -0.5, -2.25, -9.75},
        .is_inside = no_pole}},
      {"digamma",
       {.formula = [](const Jet& x, P) { return polygamma(0, x); },
        .points = {1.4616321449683623, -0.5, -2.25, -9.75},
        .is_inside = no_pole}},
      {"polygamma",
       {.formula = [](const Jet& x, P p) { return polygamma(static_cast<int>(p[0]), x); },
        .points = {-0.5, -2.25, -9.75},
        .is_inside = no_pole}},
      {"relu",
       {.formula = [](const Jet& x, P) { return x.value() > 0 ? x : Jet(0); },
        .points = around({0})}},
      {"leaky_relu",
       {.formula = [](const Jet& x, P p) { return x.value() > 0 ? x : p[0] * x; },
        .points = around({0})}},
      {"relu6",
       {.formula = [](const Jet& x, P) { return x.value() > 0 && x.value() < 6 ? x : Jet(0); },
        .points = around({0, 6})}},
      {"sigmoid", {.formula = [](const Jet& x, P) { return sigmoid(x); }, .scale = 1, .slack = 1}},
      {"log_sigmoid", {.formula = [](const Jet& x, P) { return -softplus(-x); }, .scale = 1}},
      {"gelu", {.formula = [](const Jet& x, P) { return x * normal_cdf(x); }, .scale = 1}},
      {"gelu_tanh",
       {.formula =
            [](const Jet& x, P) {
              constexpr Real root_8_over_pi = 1.595769121605730711759784L;
              return x * sigmoid(root_8_over_pi * (x + 0.044715L * x * x * x));
            },
        .scale = 1}},
      {"elu",
       {.formula = [](const Jet& x, P p) { return x.value() > 0 ? x : p[0] * exp(x); },
        .points = around({0}),
        .scale = 1}},
      {"selu",
       {.formula = [](const Jet& x,
                      P) { return selu_scale * (x.value() > 0 ? x : selu_alpha * exp(x)); },
        .points = around({0}),
        .scale = 1}},
      {"silu", {.formula = [](const Jet& x, P) { return x * sigmoid(x); }, .scale = 1}},
      // tanh(softplus(x)) = w / (w + 2) for w = e^x (e^x + 2), and 1 − w for w = 2q² / (1 + 2q +
      // 2q²) and q = e^−x.
      {"mish",
       {.formula =
            [](const Jet& x, P) {
              const Jet small = x.value() < 0 ? exp(x) : exp(-x);
              if (x.value() < 0) return x * (small * (small + 2)) / (small * (small + 2) + 2);
              return x - x * (2 * small * small) / (1 + 2 * small + 2 * small * small);
            },
        .scale = 1}},
      {"softplus",
       {.formula = [](const Jet& x, P p) { return softplus(p[0] * x) * (1 / Real(p[0])); },
        .scale = 1}},
      {"hard_sigmoid",
       {.formula =
            [](const Jet& x, P) {
              return x.value() > -3 && x.value() < 3 ? (x + 3) * (1 / 6.0L) : Jet(0);
            },
        .points = around({-3, 3})}},
      {"hard_swish",
       {.formula =
            [](const Jet& x, P) {
              return x.value() <= -3 ? Jet(0) : x.value() >= 3 ? x : x * (x + 3) * (1 / 6.0L);
            },
        .points = around({-3, 3}),
        .scale = 1}},
      {"hard_tanh",
       {.formula = [](const Jet& x,
                      P p) { return x.value() > p[0] && x.value() < p[1] ? x : Jet(0); },
        .points = around({-1, -0.6, 0.6, 1})}}};
  return forms;
}

struct Binary {
  std::function<Jet(const Jet& a, const Jet& b)> formula;
  std::vector<std::pair<double, double>> points = {};
  double scale = 0;
};

inline std::vector<std::pair<double, double>> crossed(const std::vector<double>& a,
                                                      const std::vector<double>& b) {
  std::vector<std::pair<double, double>> pairs;
  for (double x : a) {
    for (double y : b) pairs.emplace_back(x, y);
  }
  return pairs;
}

// ∂ⁱ/∂aⁱ ∂ʲ/∂bʲ a^b = Σₘ (j over m) Pᵢ⁽ᵐ⁾(b) · lnʲ⁻ᵐ a · a^(b−i), where Pᵢ(b) = b (b − 1) … (b − i
// + 1). For negative a and integer b the logarithm does not exist: only the derivatives with
// respect to a do.
inline Jet power(const Jet& at_a, const Jet& at_b) {
  const Real a = at_a.value(), b = at_b.value();
  const Real log_a = a > 0 ? std::log(a) : 0;
  return Jet::of_partials([&](int i, int j) {
    Jet falling = 1;
    for (int k = 0; k < i; ++k) falling = falling * (Jet::variable(b, 0) - k);
    Real sum = 0, binomial = 1;
    for (int m = 0; m <= j; ++m) {
      sum += binomial * falling.derivative(m) * std::pow(log_a, static_cast<Real>(j - m));
      binomial = binomial * (j - m) / (m + 1);
    }
    return sum == 0 ? 0 : sum * std::pow(a, b - i);
  });
}

inline const std::map<std::string, Binary>& binary() {
  using J = const Jet&;
  const std::vector<double> sizes = {1e-100, 3e-12, 4e-12, 1e-10, 1e-8, 1e-4, 0.1,
                                     0.7,    1,     2,     30,    1e10, 1e100};
  const auto both_signs = [](const std::vector<double>& values) {
    std::vector<double> all = values;
    for (double x : values) all.push_back(-x);
    return all;
  };
  const std::vector<double> any = both_signs(sizes);
  std::vector<double> with_zero = any;
  with_zero.push_back(0);
  std::vector<double> not_tiny;
  for (double x : any) {
    if (std::fabs(x) >= 1e-10) not_tiny.push_back(x);
  }
  std::vector<std::pair<double, double>> ties = crossed(with_zero, with_zero);
  for (double x : {1.0, -2.0, 1e-12, 1e10}) {
    ties.emplace_back(x, std::nextafter(x, HUGE_VAL));
    ties.emplace_back(x, std::nextafter(x, -HUGE_VAL));
  }
  std::vector<std::pair<double, double>> exponentials = crossed(
      {-300, -40, -3, -1e-9, 0, 1e-9, 0.5, 3, 40, 300}, {-300, -40, -3, 0, 0.5, 3, 40, 300});
  for (double x : {0.7, 1000.0, -1e4}) exponentials.emplace_back(x, x);
  std::vector<std::pair<double, double>> powers =
      crossed({1e-10, 1e-8, 1e-4, 0.1, 0.9, 1, 1.5, 3, 50},
              {-12, -3, -2, -1.5, -1, -0.5, 0, 1e-8, 0.5, 1, 1.5, 2, 2.5, 3, 7});
  const auto origin_less = [](std::vector<std::pair<double, double>> pairs) {
    std::erase(pairs, std::pair{0.0, 0.0});
    return pairs;
  };
  static const std::map<std::string, Binary> forms = {
      {"add", {.formula = [](J a, J b) { return a + b; }, .points = ties}},
      {"subtract", {.formula = [](J a, J b) { return a - b; }, .points = ties}},
      {"multiply", {.formula = [](J a, J b) { return a * b; }, .points = ties}},
      {"divide",
       {.formula = [](J a, J b) { return a / b; }, .points = crossed(with_zero, not_tiny)}},
      {"floor_divide",
       {.formula = [](J, J) { return Jet(0); },
        .points = crossed({-7, -6, 0, 5.5, 6}, {-3, 2, 3})}},
      {"modulo",
       {.formula = [](J a, J b) { return a - b * std::floor(a.value() / b.value()); },
        .points = crossed({-7, -6, 0, 5.5, 6}, {-3, 2, 3})}},
      {"power", {.formula = power, .points = powers}},
      {"maximum",
       {.formula =
            [](J a, J b) {
              return a.value() == b.value() ? 0.5L * (a + b) : a.value() > b.value() ? a : b;
            },
        .points = ties}},
      {"minimum",
       {.formula =
            [](J a, J b) {
              return a.value() == b.value() ? 0.5L * (a + b) : a.value() < b.value() ? a : b;
            },
        .points = ties}},
      {"atan2",
       {.formula =
            [](J a, J b) {
              return std::fabs(b.value()) > std::fabs(a.value()) ? atan(a / b) : -atan(b / a);
            },
        .points = origin_less(crossed(with_zero, with_zero))}},
      {"hypot",
       {.formula =
            [](J a, J b) {
              const bool swap = std::fabs(a.value()) < std::fabs(b.value());
              const Jet &larger = swap ? b : a, &smaller = swap ? a : b;
              const Jet ratio = smaller / larger;
              return (larger.value() < 0 ? -larger : larger) * sqrt(1 + ratio * ratio);
            },
        .points = origin_less(crossed(with_zero, with_zero))}},
      {"copysign",
       {.formula =
            [](J a, J b) {
              if (a.value() == 0) return Jet(0);
              return std::signbit(a.value()) == std::signbit(b.value()) ? a : -a;
            },
        .points = ties}},
      {"logaddexp",
       {.formula =
            [](J a, J b) {
              return a.value() > b.value() ? a + softplus(b - a) : b + softplus(a - b);
            },
        .points = exponentials,
        .scale = 1}},
      {"prelu", {.formula = [](J a, J b) { return a.value() > 0 ? a : a * b; }, .points = ties}}};
  return forms;
}

}  // namespace closed_forms
