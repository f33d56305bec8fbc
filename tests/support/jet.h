// Truncated power series in two variables: the closed forms with which derivatives are compared. A
// formula of jets has its derivatives of every order up to `Jet::order`, in long double, and shares
// nothing with the library's dual numbers.
//   const Jet x = Jet::variable(0.5L, 0);
//   exp(x * x).derivative(3);             // of exp(x²) at 0.5
#pragma once

#include <array>
#include <cmath>

namespace jets {

using Real = long double;

class Jet {
 public:
  // One more than the highest compared derivative: the next one measures its sensitivity.
  static constexpr int order = 4;
  using Series = std::array<Real, order + 1>;  // Taylor coefficients of a function of one variable

  Jet(Real number = 0) { at(0, 0) = number; }  // NOLINT: implicit, numbers mix in
  // The first (which = 0) or the second variable.
  static Jet variable(Real value, int which) {
    Jet x(value);
    x.at(which == 0 ? 1 : 0, which == 0 ? 0 : 1) = 1;
    return x;
  }
  // From partial(i, j), the derivative of order i along the first variable and j along the second.
  template <class Partial>
  static Jet of_partials(const Partial& partial) {
    Jet x;
    for (int i = 0; i <= order; ++i) {
      for (int j = 0; i + j <= order; ++j) x.at(i, j) = partial(i, j) / factorial(i) / factorial(j);
    }
    return x;
  }

  Real value() const { return at(0, 0); }
  Real derivative(int i, int j = 0) const { return at(i, j) * factorial(i) * factorial(j); }

  // f(u) for the f whose Taylor coefficients at u's value are `series`.
  static Jet compose(const Series& series, const Jet& u) {
    Jet step = u;
    step.at(0, 0) = 0;
    Jet sum(series[order]);
    for (int k = order - 1; k >= 0; --k) sum = sum * step + series[static_cast<std::size_t>(k)];
    return sum;
  }

  friend Jet operator+(Jet a, const Jet& b) {
    for (int i = 0; i <= order; ++i) {
      for (int j = 0; i + j <= order; ++j) a.at(i, j) += b.at(i, j);
    }
    return a;
  }
  friend Jet operator-(Jet a) {
    for (auto& row : a.terms_) {
      for (Real& term : row) term = -term;
    }
    return a;
  }
  friend Jet operator-(const Jet& a, const Jet& b) { return a + -b; }
  friend Jet operator*(const Jet& a, const Jet& b) {
    Jet product;
    for (int i = 0; i <= order; ++i) {
      for (int j = 0; i + j <= order; ++j) {
        for (int k = 0; k <= i; ++k) {
          for (int l = 0; l <= j; ++l) product.at(i, j) += a.at(k, l) * b.at(i - k, j - l);
        }
      }
    }
    return product;
  }

 private:
  static Real factorial(int n) { return n < 2 ? 1 : n * factorial(n - 1); }
  Real& at(int i, int j) {
    return terms_[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
  }
  Real at(int i, int j) const {
    return terms_[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
  }

  std::array<std::array<Real, order + 1>, order + 1> terms_{};
};

// The series of a function with this value, given the series `slope` of its derivative.
inline Jet::Series integrated(Real value, const Jet& slope) {
  Jet::Series series{value};
  Real factorial = 1;
  for (int k = 1; k <= Jet::order; ++k) {
    if (k > 1) factorial *= k - 1;
    series[static_cast<std::size_t>(k)] = slope.derivative(k - 1) / factorial / k;
  }
  return series;
}
template <class Slope>
Jet integral(Real value, const Slope& slope, const Jet& u) {
  return Jet::compose(integrated(value, slope(Jet::variable(u.value(), 0))), u);
}

// u to a constant power.
inline Jet pow(const Jet& u, Real exponent) {
  Jet::Series series{};
  Real binomial = 1;
  for (int k = 0; k <= Jet::order && binomial != 0; ++k) {
    series[static_cast<std::size_t>(k)] = binomial * std::pow(u.value(), exponent - k);
    binomial *= (exponent - k) / (k + 1);
  }
  return Jet::compose(series, u);
}
inline Jet operator/(const Jet& a, const Jet& b) { return a * pow(b, -1); }
inline Jet sqrt(const Jet& u) { return pow(u, 0.5L); }

inline Jet exp(const Jet& u) {
  Jet::Series series{std::exp(u.value())};
  for (std::size_t k = 1; k <= Jet::order; ++k) series[k] = series[k - 1] / static_cast<Real>(k);
  return Jet::compose(series, u);
}
inline Jet log(const Jet& u) {
  return integral(
      std::log(u.value()), [](const Jet& x) { return pow(x, -1); }, u);
}
inline Jet log1p(const Jet& u) {
  return integral(
      std::log1p(u.value()), [](const Jet& x) { return pow(1 + x, -1); }, u);
}
// sin(u + quarters · π/2)
inline Jet sine(const Jet& u, int quarters) {
  const Real cycle[] = {std::sin(u.value()), std::cos(u.value()), -std::sin(u.value()),
                        -std::cos(u.value())};
  Jet::Series series{};
  Real factorial = 1;
  for (int k = 0; k <= Jet::order; ++k) {
    if (k > 0) factorial *= k;
    series[static_cast<std::size_t>(k)] = cycle[(k + quarters) % 4] / factorial;
  }
  return Jet::compose(series, u);
}
inline Jet sin(const Jet& u) { return sine(u, 0); }
inline Jet cos(const Jet& u) { return sine(u, 1); }
// sinh, or cosh for odd = 1.
inline Jet hyperbolic(const Jet& u, int odd) {
  const Real cycle[] = {std::sinh(u.value()), std::cosh(u.value())};
  Jet::Series series{};
  Real factorial = 1;
  for (int k = 0; k <= Jet::order; ++k) {
    if (k > 0) factorial *= k;
    series[static_cast<std::size_t>(k)] = cycle[(k + odd) % 2] / factorial;
  }
  return Jet::compose(series, u);
}
inline Jet sinh(const Jet& u) { return hyperbolic(u, 0); }
inline Jet cosh(const Jet& u) { return hyperbolic(u, 1); }
// One form is accurate for derivatives in the tails, sinh / cosh near 0.
inline Jet tanh(const Jet& u) {
  if (std::fabs(u.value()) < 1) return sinh(u) / cosh(u);
  if (u.value() < 0) return -tanh(-u);
  const Jet small = exp(-2 * u);
  return 1 - 2 * small / (1 + small);
}
inline Jet sigmoid(const Jet& u) {
  return u.value() < 0 ? exp(u) / (1 + exp(u)) : 1 / (1 + exp(-u));
}
inline Jet softplus(const Jet& u) { return u.value() < 0 ? log1p(exp(u)) : u + log1p(exp(-u)); }
inline Jet atan(const Jet& u) {
  return integral(
      std::atan(u.value()), [](const Jet& x) { return 1 / (1 + x * x); }, u);
}
inline Jet normal_pdf(const Jet& u) { return 0.398942280401432677939946L * exp(-0.5L * u * u); }
inline Jet normal_cdf(const Jet& u) {
  const Real value = 0.5L * std::erfc(-u.value() * 0.707106781186547524400844L);
  return integral(
      value, [](const Jet& x) { return normal_pdf(x); }, u);
}

}  // namespace jets
