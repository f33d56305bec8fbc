// Derivatives of ops that are not rows of the op tables at their edges (zeros, ties, infinities,
// tiny and huge numbers), compared with closed forms in long double; and single values that
// docs/gradient-rules.md states.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <sstream>

#include "extensor/extensor.h"
#include "support/jet.h"

namespace extensor {
namespace {

using jets::Jet;
using jets::Real;
using Numbers = std::vector<double>;
using Jets = std::vector<Jet>;
using Call = std::function<Tensor(const Tensor&)>;

constexpr int orders = 3;
constexpr double infinity = std::numeric_limits<double>::infinity();

Tensor vector_of(const Numbers& values) { return from_data(values); }

// d^k/dt^k of call(x + t · direction) at t = 0, for k = 1 … orders.
Numbers along(const Call& call, const Numbers& at, const Numbers& direction) {
  const Tensor x = vector_of(at).requires_grad_(), v = vector_of(direction);
  Numbers found;
  Tensor y = call(x);
  for (int k = 0; k < orders; ++k) {
    Tensor slope;
    if (y.requires_grad()) {
      slope = grad(sum(y), {x}, {.create_graph = true, .allow_unused = true})[0];
    }
    y = slope.defined() ? sum(slope * v) : zeros({}, float64);
    found.push_back(y.item<double>());
  }
  return found;
}

// The scale of an error, together with the largest derivative of that order.
struct Scale {
  double reach = 0;                       // rounding errors of inputs of this size are allowed
  std::function<double(int)> terms = {};  // the magnitude of the terms of that order
};

// Along every axis and along a direction that mixes them.
void expect_derivatives(const std::string& op, const Call& call,
                        const std::function<Jet(const Jets&)>& formula, const Numbers& at,
                        const Scale& scale = {}) {
  std::vector<Numbers> directions;
  Numbers mixed;
  for (std::size_t i = 0; i < at.size(); ++i) {
    directions.emplace_back(at.size(), 0.0);
    directions.back()[i] = 1;
    mixed.push_back(0.5 + 0.25 * static_cast<double>(i));
  }
  directions.push_back(mixed);
  Numbers largest(Jet::order + 1);
  Jets exact;
  for (const Numbers& direction : directions) {
    Jets line;
    for (std::size_t i = 0; i < at.size(); ++i) {
      line.push_back(at[i] + direction[i] * Jet::variable(0, 0));
    }
    exact.push_back(formula(line));
    for (int k = 1; k <= Jet::order; ++k) {
      double& most = largest[static_cast<std::size_t>(k)];
      most = std::fmax(most, static_cast<double>(std::fabs(exact.back().derivative(k))));
    }
  }
  for (std::size_t i = 0; i < directions.size(); ++i) {
    const Numbers got = along(call, at, directions[i]);
    for (int k = 1; k <= orders; ++k) {
      const auto order = static_cast<std::size_t>(k);
      const double want = static_cast<double>(exact[i].derivative(k));
      const double size =
          largest[order] + scale.reach * largest[order + 1] + (scale.terms ? scale.terms(k) : 0);
      EXPECT_LE(std::fabs(got[order - 1] - want), 1e-13 * size)
          << op << ", order " << k << ", direction " << i << ", at " << vector_of(at) << ": is "
          << got[order - 1] << ", must be " << want;
    }
  }
}

Jet total(const Jets& x) {
  Jet sum = 0;
  for (const Jet& each : x) sum = sum + each;
  return sum;
}

// ---- norm

Jet norm_form(const Jets& x, Real p) {
  Jet sum = 0;
  for (const Jet& each : x) {
    if (each.value() != 0) sum = sum + pow(each.value() < 0 ? -each : each, p);
  }
  return pow(sum, 1 / p);
}

// The derivatives of a norm y have terms of magnitude y^(1 − order).
void expect_norm(double p, const Numbers& at) {
  std::ostringstream op;
  op << "norm, p = " << p;
  const double y = norm(vector_of(at), p).item<double>();
  expect_derivatives(
      op.str(), [p](const Tensor& x) { return norm(x, p); },
      [p](const Jets& x) { return norm_form(x, p); }, at,
      {.terms = [y](int order) { return std::pow(y, 1 - order); }});
}

TEST(NormDerivatives, MatchTheClosedForm) {
  for (double p : {-1.0, 0.3, 0.5, 0.9, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0}) {
    for (const Numbers& at :
         {Numbers{0.7, -1.3, 2.1}, Numbers{3e-9, 4e-9, -2e-9}, Numbers{1e-3, 1.0, -1e3},
          Numbers{3e80, 4e80, -1e80}, Numbers{1.0, 1.0, 1.0}}) {
      expect_norm(p, at);
    }
  }
}

// Elements much smaller than the norm: p below 1 is steep there, and no floor applies.
TEST(NormDerivatives, SmallElements) {
  for (double p : {0.3, 0.5, 0.9}) {
    expect_norm(p, {1.0, 1e-12, 2.0});
    expect_norm(p, {1.0, -1e-20, 2.0});
  }
}

// An element that is 0 has the gradient 0, for every p and eps; below p = 2 so has its row of
// second derivatives.
TEST(NormDerivatives, ZeroElements) {
  for (double eps : {default_eps, 0.0}) {
    const GradientEps scope(eps);
    for (double p : {-1.0, 0.5, 1.0, 1.5, 2.0, 3.0, infinity}) {
      for (const Numbers& at : {Numbers{0.0, 3.0, -4.0}, Numbers{0.0, 0.0, 0.0}}) {
        const Tensor x = vector_of(at).requires_grad_();
        const Tensor first = grad(norm(x, p), {x}, {.create_graph = true})[0];
        EXPECT_FALSE(any(isnan(first)).item<bool>()) << "p " << p << ", eps " << eps << first;
        EXPECT_EQ(first[0].item<double>(), 0) << "p " << p << ", eps " << eps;
        if (p >= 2 || at[1] == 0 || p < 0) continue;
        const Tensor second = grad(sum(first), {x})[0];
        EXPECT_EQ(second[0].item<double>(), 0) << "p " << p << ", eps " << eps;
        EXPECT_TRUE(all(isfinite(second)).item<bool>()) << "p " << p << ", eps " << eps << second;
      }
    }
    EXPECT_EQ(norm_backward(ones({}, float64), zeros({2}, float64), 2, {}, eps).to_vector<double>(),
              (Numbers{0, 0}));
  }
  // For even p the norm is smooth at such an element.
  const Scale scale{.terms = [](int order) { return std::pow(3, 1 - order); }};
  expect_derivatives(
      "norm, p = 2", [](const Tensor& x) { return norm(x, 2); },
      [](const Jets& x) { return sqrt(x[0] * x[0] + x[1] * x[1]); }, {0.0, 3.0}, scale);
  expect_derivatives(
      "norm, p = 4", [](const Tensor& x) { return norm(x, 4); },
      [](const Jets& x) { return pow(pow(x[0], 4) + pow(x[1], 4), 0.25L); }, {0.0, 3.0}, scale);
}

// A norm below eps counts as eps: x / eps is linear.
TEST(NormDerivatives, BelowTheFloor) {
  const Numbers at = {3e-12, 4e-12};
  EXPECT_NEAR(along([](const Tensor& x) { return norm(x); }, at, {1, 0})[0], 0.03, 1e-15);
  EXPECT_NEAR(along([](const Tensor& x) { return norm(x); }, at, {1, 0})[1], 1e10, 1e-3);
  EXPECT_NEAR(along([](const Tensor& x) { return norm(x); }, at, {1, 0})[2], 0, 1e-3);
  const GradientEps ieee(0);
  expect_norm(2, at);
}

// ---- logsumexp and softmax

Jet logsumexp_form(const Jets& x) {
  Real largest = x[0].value();
  for (const Jet& each : x) largest = std::fmax(largest, each.value());
  Jet sum = 0;
  for (const Jet& each : x) sum = sum + exp(each - largest);
  return largest + log(sum);
}

TEST(SoftmaxDerivatives, MatchTheClosedForm) {
  for (const Numbers& at :
       {Numbers{0.5, -1.0, 2.0}, Numbers{1.0, 1.0, 1.0}, Numbers{700.0, 701.0, 699.5},
        Numbers{-1e4, -1e4, 0.0}, Numbers{30.0, 0.0, -30.0}, Numbers{1e-12, 0.0, -1e-12}}) {
    const Scale one{.terms = [](int) { return 1.0; }};
    expect_derivatives(
        "logsumexp", [](const Tensor& x) { return logsumexp(x); }, logsumexp_form, at, one);
    expect_derivatives(
        "softmax", [](const Tensor& x) { return softmax(x)[0]; },
        [](const Jets& x) { return exp(x[0] - logsumexp_form(x)); }, at, one);
    expect_derivatives(
        "log_softmax", [](const Tensor& x) { return log_softmax(x)[0]; },
        [](const Jets& x) { return x[0] - logsumexp_form(x); }, at, one);
  }
}

// The elements that are +∞ share the gradient, as in logaddexp; −∞ has none.
TEST(SoftmaxDerivatives, LogsumexpOfInfinities) {
  const auto derivatives = [](const Numbers& at) {
    const Tensor x = vector_of(at).requires_grad_();
    const Tensor first = grad(logsumexp(x), {x}, {.create_graph = true})[0];
    const Tensor second =
        first.requires_grad() ? grad(sum(first * first), {x}, {.allow_unused = true})[0] : Tensor();
    const Numbers zeros(at.size(), 0.0);
    return std::pair{first.to_vector<double>(),
                     second.defined() ? second.to_vector<double>() : zeros};
  };
  const Numbers nothing3 = {0, 0, 0};
  EXPECT_EQ(derivatives({infinity, 1, 0}), (std::pair{Numbers{1, 0, 0}, nothing3}));
  EXPECT_EQ(derivatives({infinity, 1, infinity}), (std::pair{Numbers{0.5, 0, 0.5}, nothing3}));
  EXPECT_EQ(derivatives({infinity, -infinity, 900}), (std::pair{Numbers{1, 0, 0}, nothing3}));
  EXPECT_EQ(derivatives({-infinity, -infinity, -infinity}).first, nothing3);
  EXPECT_EQ(derivatives({-infinity, 2, -infinity}), (std::pair{Numbers{0, 1, 0}, nothing3}));
  for (double each : derivatives({infinity, NAN, 0}).first) EXPECT_TRUE(std::isnan(each));
  // A row with an infinity does not affect other rows.
  const Tensor x = tensor({{infinity, 1.0}, {0.0, 0.0}}, float64);
  EXPECT_EQ(logsumexp_backward(ones({2}, float64), x, 1).to_vector<double>(),
            (Numbers{1, 0, 0.5, 0.5}));
  for (DType dtype : {float32, float16, bfloat16}) {
    const Tensor narrow = tensor({infinity, 1.0, infinity}, float64).to(dtype);
    EXPECT_EQ(logsumexp_backward(ones({}, dtype), narrow, 0).to(float64).to_vector<double>(),
              (Numbers{0.5, 0, 0.5}));
  }
}

// ---- products and variances

TEST(ProductDerivatives, MatchTheClosedForm) {
  for (const Numbers& at :
       {Numbers{0.5, -2.0, 3.0}, Numbers{0.0, -2.0, 3.0}, Numbers{0.0, 0.0, 3.0},
        Numbers{0.0, 0.0, 0.0}, Numbers{1e-12, 2.0, 3.0}, Numbers{1e-100, 1e100, 2.0}}) {
    const auto product = [](const Jets& x) { return x[0] * x[1] * x[2]; };
    expect_derivatives(
        "prod", [](const Tensor& x) { return prod(x); }, product, at);
    expect_derivatives(
        "cumulative_prod", [](const Tensor& x) { return cumulative_prod(x, 0)[2]; }, product, at);
  }
}

TEST(VarianceDerivatives, MatchTheClosedForm) {
  const auto variance = [](const Jets& x) {
    const Jet mean = total(x) * (1.0L / static_cast<Real>(x.size()));
    Jet sum = 0;
    for (const Jet& each : x) sum = sum + (each - mean) * (each - mean);
    return sum * (1.0L / static_cast<Real>(x.size()));
  };
  for (const Numbers& at : {Numbers{0.5, -2.0, 3.0}, Numbers{3e-9, 4e-9, -2e-9},
                            Numbers{1e80, 2e80, -1e80}, Numbers{1.0, 1.0, 1.0 + 0x1p-20}}) {
    const Scale means{.reach = std::fabs(at[2])};
    expect_derivatives(
        "var", [](const Tensor& x) { return var(x); }, variance, at, means);
    expect_derivatives(
        "std", [](const Tensor& x) { return extensor::std(x); },
        [&](const Jets& x) { return sqrt(variance(x)); }, at, means);
  }
  // A deviation below eps counts as eps, and a constant row has the gradient 0.
  const Call deviation = [](const Tensor& x) { return extensor::std(x); };
  EXPECT_EQ(along(deviation, {2, 2, 2}, {1, 0, 0})[0], 0);
  EXPECT_NEAR(along(deviation, {2, 2, 2}, {1, 0, 0})[1] / (2e10 / 9), 1, 1e-12);
}

// ---- single values

Tensor at(double x) { return full({}, x, float64); }

TEST(DerivativeValues, PowerAtItsCorners) {
  const auto second = [](double a, double b) {
    const Tensor one = at(1);
    const DoubleGradients from_a = power_double_backward(one, {}, one, at(a), at(b));
    const DoubleGradients from_b = power_double_backward({}, one, one, at(a), at(b));
    return Numbers{from_a.a.item<double>(), from_a.b.item<double>(), from_b.a.item<double>(),
                   from_b.b.item<double>()};
  };
  const double ln3 = std::log(3.0);
  EXPECT_EQ(second(3, 1), (Numbers{0, 1 + ln3, 1 + ln3, 3 * ln3 * ln3}));
  EXPECT_EQ(second(3, 0), (Numbers{0, 1 / 3.0, 1 / 3.0, ln3 * ln3}));
  EXPECT_EQ(second(-3, 3)[0], -18);
  EXPECT_EQ(second(-3, 2)[0], 2);
  EXPECT_EQ(second(-2, -1)[0], -0.25);
  // At base 0 the exponents 1, 2 and 3 are polynomials, and the gradient of the exponent is 0.
  EXPECT_EQ(second(0, 1), (Numbers{0, 1, 0, 0}));
  EXPECT_EQ(second(0, 2), (Numbers{2, 0, 0, 0}));
  EXPECT_EQ(second(0, 3), (Numbers{0, 0, 0, 0}));
  EXPECT_EQ(second(0, 1.5)[0], infinity);
  for (double exponent : {-2.0, 0.0, 0.5}) {
    for (double each : second(0, exponent)) EXPECT_TRUE(std::isfinite(each)) << exponent;
  }
}

// The origin, where the limit depends on the direction, has the gradient 0 in every order.
TEST(DerivativeValues, OriginOfHypotAndAtan2) {
  for (const auto& call : {std::function<Tensor(const Tensor&, const Tensor&)>(
                               [](const Tensor&a, const Tensor&b) { return hypot(a, b); }),
                           std::function<Tensor(const Tensor&, const Tensor&)>(
                               [](const Tensor&a, const Tensor&b) { return atan2(a, b); })}) {
    EXPECT_EQ(along([&](const Tensor& x) { return call(x[0], x[1]); }, {0, 0}, {1, 2}),
              (Numbers{0, 0, 0}));
  }
}

TEST(DerivativeValues, OfTheIssue) {
  const auto second = [](const Call& call, double x) { return along(call, {x}, {1})[1]; };
  const double root = std::sqrt(2 / std::acos(-1.0));
  for (double x : {0.0, 1e-12, -1e-12}) {
    EXPECT_NEAR(second([](const Tensor& t) { return gelu_tanh(t); }, x), root, 1e-11);
  }
  EXPECT_NEAR(second([](const Tensor& t) { return rsqrt(t); }, 1e-8) / 7.5e19, 1, 1e-14);
  const double near_one = 1 - 1e-11, gap = 1 - near_one;
  EXPECT_NEAR(second([](const Tensor& t) { return atanh(t); }, near_one) * 2 * gap * gap, 1, 1e-10);
  const Call sum_of = [](const Tensor& x) { return logaddexp(x[0], x[1]); };
  EXPECT_EQ(along(sum_of, {0.7, 0.7}, {1, 0})[1], 0.25);
  EXPECT_EQ(along(sum_of, {0.7, 0.7}, {1, 1})[1], 0);
  EXPECT_EQ(along(sum_of, {infinity, infinity}, {1, 0}), (Numbers{0.5, 0, 0}));
  EXPECT_NEAR(along([](const Tensor& x) { return hypot(x[0], x[1]); }, {3e-12, 4e-12}, {1, 0})[1] /
                  (0.64 / 5e-12),
              1, 1e-14);
}

// A gradient of a gradient has no additional floor, and neither have the ops recorded for it.
TEST(DerivativeValues, HigherOrdersUnderAndOverTheFloor) {
  const auto derivatives = [](double x) {
    return along([](const Tensor& t) { return log(t); }, {x}, {1});
  };
  EXPECT_NEAR(derivatives(2e-10)[2] / (2 / 8e-30), 1, 1e-14);
  EXPECT_EQ(derivatives(5e-11), (Numbers{1e10, 0, 0}));
  const GradientEps ieee(0);
  EXPECT_NEAR(derivatives(5e-11)[2] / (2 / 1.25e-31), 1, 1e-14);
}

}  // namespace
}  // namespace extensor
