// The first three derivatives of every row of the op tables at its edges (0, eps, ties, both sides
// of kinks, tails) against closed forms in long double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "op_database/elementwise_rows.h"
#include "support/closed_forms.h"

namespace extensor {
namespace {

using closed_forms::Jet;
using closed_forms::Real;
using op_database::BinaryRow;
using op_database::UnaryRow;

constexpr int orders = 3;
static_assert(orders < Jet::order);

struct Format {
  DType dtype;
  double epsilon, smallest, largest;  // of the compared results
};
// A third derivative is made of products that are larger and smaller than itself.
constexpr Format formats[] = {{DType::float64, 0x1p-52, 1e-200, 1e200},
                              {DType::float32, 0x1p-23, 1e-20, 1e20}};

// The number of rounding errors allowed for a result of this order.
double allowed(int order) { return order == 1 ? 8 : 64; }

Tensor derivative_of(const Tensor& y, const Tensor& x) {
  if (!y.defined() || !y.requires_grad()) return zeros_like(x);
  const Tensor found = grad(sum(y), {x}, {.create_graph = true, .allow_unused = true})[0];
  return found.defined() ? found : zeros_like(x);
}

Tensor vector_of(const std::vector<double>& values, DType dtype) {
  return from_data(values, {static_cast<std::int64_t>(values.size())}).to(dtype);
}

std::vector<double> stored(const std::vector<double>& values, DType dtype) {
  return vector_of(values, dtype).to(float64).to_vector<double>();
}

void expect_close(const Format& format, const std::string& where, double got, Real want,
                  Real tolerance) {
  const Real size = std::fabs(want);
  EXPECT_FALSE(std::isnan(want)) << where << ": the closed form is NaN";
  if (size > format.largest) return;
  if (size != 0 && size < format.smallest) {
    EXPECT_LE(std::fabs(got), 2 * format.smallest) << where;
    return;
  }
  EXPECT_LE(std::fabs(got - want), tolerance + format.smallest * format.epsilon)
      << where << ": is " << got << ", must be " << static_cast<double>(want);
}

// ---- one input

class UnaryDerivatives : public ::testing::TestWithParam<UnaryRow> {};

const closed_forms::Unary* form_of(const UnaryRow& row) {
  const auto found = closed_forms::unary().find(row.name);
  return found == closed_forms::unary().end() ? nullptr : &found->second;
}

// The points in the domain as the dtype stores them. With a floor, those that it does not affect.
std::vector<double> points_of(const closed_forms::Unary& form, DType dtype, double eps) {
  std::vector<double> candidates = closed_forms::common_points(), points;
  candidates.insert(candidates.end(), form.points.begin(), form.points.end());
  for (double x : stored(candidates, dtype)) {
    if (!std::isfinite(x) || !form.is_inside(x)) continue;
    const Real size = form.floored ? std::fabs(form.floored(x)) : 1;
    const bool is_own = form.floored && form.floored(x) == x;
    const Real least = stored({eps}, dtype)[0];
    if (is_own ? size >= least : size > 1.001 * least) points.push_back(x);
  }
  return points;
}

void expect_derivatives(const UnaryRow& row, const closed_forms::Unary& form, const Format& format,
                        double eps) {
  const GradientEps scope(eps);
  const std::vector<double> points = points_of(form, format.dtype, eps);
  ASSERT_FALSE(points.empty());
  const Tensor x = vector_of(points, format.dtype).requires_grad_();
  Tensor y = row.forward(x);
  for (int order = 1; order <= orders; ++order) {
    y = derivative_of(y, x);
    const std::vector<double> got = y.to(float64).to_vector<double>();
    for (std::size_t i = 0; i < points.size(); ++i) {
      const Jet exact = form.formula(Jet::variable(points[i], 0), row.parameters);
      const Real want = exact.derivative(order), next = exact.derivative(order + 1);
      const Real moved = std::fabs(next) * std::fmax(std::fabs(points[i]), form.scale);
      const Real tolerance =
          format.epsilon * (allowed(order) * (std::fabs(want) + moved) + 4 * form.slack);
      std::ostringstream where;
      where.precision(17);
      where << row.label << ", " << name(format.dtype) << ", eps " << eps << ", order " << order
            << " at " << points[i];
      expect_close(format, where.str(), got[i], want, tolerance);
    }
  }
}

TEST_P(UnaryDerivatives, MatchTheClosedForm) {
  const UnaryRow& row = GetParam();
  const auto* form = form_of(row);
  ASSERT_NE(form, nullptr) << row.name << " has no closed form in tests/support/closed_forms.h";
  EXPECT_EQ(static_cast<bool>(form->floored), static_cast<bool>(row.backward_eps)) << row.name;
  for (const Format& format : formats) {
    expect_derivatives(row, *form, format, default_eps);
    if (row.backward_eps) expect_derivatives(row, *form, format, 0);
  }
}

// Below the floor the argument is ±eps and a constant.
TEST_P(UnaryDerivatives, AreThoseOfEpsBelowTheFloor) {
  const UnaryRow& row = GetParam();
  const auto* form = form_of(row);
  if (!row.backward_eps) return;
  for (const Format& format : formats) {
    const Real eps = stored({default_eps}, format.dtype)[0];
    std::vector<double> points = {0.0, -0.0, 1e-35, 1e-31};
    const bool is_own = form->floored(0.25) == 0.25;
    if (is_own) points.insert(points.end(), {1e-11, 9.9e-11, -1e-11});
    if (row.name == "log1p") points = {-1};
    const Tensor x = vector_of(points, format.dtype).requires_grad_();
    Tensor y = row.forward(x);
    for (int order = 1; order <= orders; ++order) {
      y = derivative_of(y, x);
      const std::vector<double> got = y.to(float64).to_vector<double>();
      for (std::size_t i = 0; i < points.size(); ++i) {
        const Real floor = points[i] < 0 && is_own ? -eps : eps;
        if (row.name == "rsqrt" && floor < 0) continue;  // has no value there
        const Real want = order == 1 ? form->derivative_at_floor(floor) : 0;
        EXPECT_LE(std::fabs(got[i] - want), 4 * format.epsilon * std::fabs(want))
            << row.label << ", " << name(format.dtype) << ", order " << order << " at " << points[i]
            << ": is " << got[i] << ", must be " << static_cast<double>(want);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, UnaryDerivatives, ::testing::ValuesIn(op_database::unary_rows()),
                         [](const auto& info) { return info.param.label; });

// ---- two inputs

class BinaryDerivatives : public ::testing::TestWithParam<BinaryRow> {};

struct Points {
  std::vector<double> a, b;
};

void expect_partial(const BinaryRow& row, const closed_forms::Binary& form, const Format& format,
                    double eps, const Points& points, const std::string& along, const Tensor& y) {
  const int order = static_cast<int>(along.size());
  const auto of_a = static_cast<int>(std::count(along.begin(), along.end(), 'a'));
  const int of_b = order - of_a;
  const std::vector<double> got = y.to(float64).to_vector<double>();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double a = points.a[i], b = points.b[i];
    const Jet exact = form.formula(Jet::variable(a, 0), Jet::variable(b, 1));
    const Real want = exact.derivative(of_a, of_b);
    const Real moved =
        std::fabs(exact.derivative(of_a + 1, of_b)) * std::fmax(std::fabs(a), form.scale) +
        std::fabs(exact.derivative(of_a, of_b + 1)) * std::fmax(std::fabs(b), form.scale);
    std::ostringstream where;
    where.precision(17);
    where << row.name << ", " << name(format.dtype) << ", eps " << eps << ", d/d" << along
          << " at (" << a << ", " << b << ")";
    expect_close(format, where.str(), got[i], want,
                 format.epsilon * allowed(order) * (std::fabs(want) + moved));
  }
}

// All partial derivatives of y, in every order of differentiation.
void expect_partials(const BinaryRow& row, const closed_forms::Binary& form, const Format& format,
                     double eps, const Points& points, const Tensor& a, const Tensor& b,
                     const std::string& along, const Tensor& y) {
  if (!along.empty()) expect_partial(row, form, format, eps, points, along, y);
  if (along.size() == orders) return;
  expect_partials(row, form, format, eps, points, a, b, along + "a", derivative_of(y, a));
  expect_partials(row, form, format, eps, points, a, b, along + "b", derivative_of(y, b));
}

Points stored_points(const closed_forms::Binary& form, DType dtype) {
  Points points;
  for (const auto& [a, b] : form.points) {
    const std::vector<double> kept = stored({a, b}, dtype);
    const bool vanishes = (a != 0 && kept[0] == 0) || (b != 0 && kept[1] == 0);
    if (vanishes || !std::isfinite(kept[0]) || !std::isfinite(kept[1])) continue;
    points.a.push_back(kept[0]);
    points.b.push_back(kept[1]);
  }
  return points;
}

TEST_P(BinaryDerivatives, MatchTheClosedForm) {
  const BinaryRow& row = GetParam();
  const auto found = closed_forms::binary().find(row.name);
  ASSERT_NE(found, closed_forms::binary().end())
      << row.name << " has no closed form in tests/support/closed_forms.h";
  for (const Format& format : formats) {
    const Points points = stored_points(found->second, format.dtype);
    for (double eps : {default_eps, 0.0}) {
      if (eps == 0 && !row.backward_eps) continue;
      const GradientEps scope(eps);
      const Tensor a = vector_of(points.a, format.dtype).requires_grad_();
      const Tensor b = vector_of(points.b, format.dtype).requires_grad_();
      expect_partials(row, found->second, format, eps, points, a, b, "", row.forward(a, b));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, BinaryDerivatives, ::testing::ValuesIn(op_database::binary_rows()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace extensor
