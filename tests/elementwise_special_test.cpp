// Zeros, infinities, NaN, subnormals and the largest numbers (C99 Annex F, the Array API's tables),
// and the elementwise gradient rules at special points.
#include <gtest/gtest.h>

#include "op_database/elementwise_reference.h"
#include "op_database/elementwise_rows.h"
#include "op_database/page.h"
#include "support/compare.h"
#include "support/draw.h"

namespace extensor {
namespace {

using compare::format_of;
using compare::ulp_error;
using compare::values_of;
using op_database::BinaryRow;
using op_database::UnaryRow;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr DType float_dtypes[] = {DType::float16, DType::bfloat16, DType::float32, DType::float64};

// The extreme values of a format and the numbers that the standards' tables list, of both signs.
std::vector<double> special_values(DType dtype) {
  const compare::Format format = format_of(dtype);
  const double least = std::ldexp(1.0, format.min_exponent - format.digits);
  const double normal = std::ldexp(1.0, format.min_exponent - 1);
  const double epsilon = std::ldexp(1.0, 1 - format.digits);
  const double most = std::ldexp(2 - epsilon, format.max_exponent - 1);
  std::vector<double> values = {0,           least, normal - least,
                                normal,      most,  infinity,
                                nan,         1,     1 - epsilon / 2,
                                1 + epsilon, 0.5,   2,
                                3,           2.5,   1.5,
                                3.5,         1024};
  const std::size_t count = values.size();
  for (std::size_t i = 0; i < count; ++i) values.push_back(-values[i]);
  return values;
}

double number(const Tensor& x) { return x.to(DType::float64).item<double>(); }

Tensor vector_of(std::initializer_list<double> values, DType dtype = DType::float64) {
  return from_data(std::vector<double>(values)).to(dtype);
}

bool same(double a, double b) { return (a != a && b != b) || a == b; }

// EXPECT_EQ on vectors where NaN equals NaN.
void expect_values(const Tensor& got, const std::vector<double>& expected, const char* what = "") {
  const auto values = values_of(got);
  ASSERT_EQ(values.size(), expected.size()) << what;
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_TRUE(same(values[i], expected[i]))
        << what << " element " << i << ": got " << values[i] << ", expected " << expected[i];
  }
}

// ---- values

class UnarySpecial : public ::testing::TestWithParam<UnaryRow> {};
class UnaryEps : public ::testing::TestWithParam<UnaryRow> {};  // rows whose backward has an eps
class BinarySpecial : public ::testing::TestWithParam<BinaryRow> {};

TEST_P(UnarySpecial, ValuesFollowTheStandards) {
  const UnaryRow& row = GetParam();
  const auto found = reference::unary_references().find(row.name);
  ASSERT_NE(found, reference::unary_references().end()) << row.name << " has no reference";
  for (DType dtype : float_dtypes) {
    const Tensor x = from_data(special_values(dtype)).to(dtype);
    const auto inputs = values_of(x), results = values_of(row.forward(x));
    reference::Parameters parameters;
    const auto taken = [&](double p) {
      return dtype == DType::float64 ? p : static_cast<float>(p);
    };
    if (!row.parameters.empty()) parameters.p = taken(row.parameters[0]);
    if (row.parameters.size() > 1) parameters.q = taken(row.parameters[1]);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const long double exact = found->second(inputs[i], parameters);
      EXPECT_LE(ulp_error(format_of(dtype), results[i], exact), is_half(dtype) ? 0.5 : 2)
          << name(dtype) << " x = " << inputs[i] << ": got " << results[i] << ", exact " << exact;
    }
  }
}

TEST_P(BinarySpecial, ValuesFollowTheStandards) {
  const BinaryRow& row = GetParam();
  const auto found = reference::binary_references().find(row.name);
  ASSERT_NE(found, reference::binary_references().end()) << row.name << " has no reference";
  for (DType dtype : float_dtypes) {
    const Tensor x = from_data(special_values(dtype)).to(dtype);
    const Tensor a = x.unsqueeze(1), b = x;
    const Tensor got = row.forward(a, b);
    const auto left = values_of(a.broadcast_to(got.shape()));
    const auto right = values_of(b.broadcast_to(got.shape())), results = values_of(got);
    for (std::size_t i = 0; i < results.size(); ++i) {
      const long double exact = found->second(left[i], right[i]);
      if (exact == 0 && results[i] == 0 && (row.name == "maximum" || row.name == "minimum")) {
        continue;  // either zero is allowed
      }
      EXPECT_LE(ulp_error(format_of(dtype), results[i], exact), is_half(dtype) ? 0.501 : 2)
          << name(dtype) << " a = " << left[i] << ", b = " << right[i] << ": got " << results[i]
          << ", exact " << static_cast<double>(exact);
    }
  }
}

// ---- every backward

TEST_P(UnarySpecial, BackwardRefusesAGradientOfAnotherShapeOrAnInteger) {
  const UnaryRow& row = GetParam();
  const Tensor x = draw::inputs_of(row, {2, 3}, 1);
  for (const Shape& wrong :
       {Shape{3, 2}, Shape{2}, Shape{3}, Shape{}, Shape{1, 2, 3}, Shape{2, 1}}) {
    EXPECT_THROW(row.backward(ones(wrong, DType::float64), x), ShapeError) << wrong;
  }
  EXPECT_THROW(row.backward(ones({2, 3}, DType::int64), x), DTypeError);
  EXPECT_THROW(row.backward(ones({2, 3}), x.to(DType::int32)), DTypeError);
  if (row.backward_eps) {
    EXPECT_THROW(row.backward_eps(ones({2, 3}), x, -1e-3), ValueError);
    EXPECT_THROW(row.backward_eps(ones({2, 3}), x, nan), ValueError);
  }
}

TEST_P(BinarySpecial, BackwardRefusesAGradientOfAnotherShape) {
  const BinaryRow& row = GetParam();
  const Tensor a = draw::uniform({2, 1}, row.lo, row.hi, 1),
               b = draw::uniform({3}, row.lo, row.hi, 2);
  for (const Shape& wrong :
       {Shape{3, 2}, Shape{2, 1}, Shape{3}, Shape{}, Shape{1, 2, 3}, Shape{6}}) {
    EXPECT_THROW(row.backward(ones(wrong, DType::float64), a, b), ShapeError) << wrong;
  }
  EXPECT_THROW(row.backward(ones({2, 3}, DType::int64), a, b), DTypeError);
  EXPECT_THROW(row.backward(ones({2, 4}), ones({2, 4}), ones({3})), ShapeError);
}

TEST(Polygamma, RefusesAnOrderThatIsNotAnIntegerFrom0To100) {
  Tensor x = ones({2});
  for (double n : {0.5, -1.0, 101.0, nan, infinity}) {
    EXPECT_THROW(polygamma(x, n), ValueError) << n;
    EXPECT_THROW(polygamma_(x, n), ValueError) << n;
    EXPECT_THROW(polygamma_backward(x, x, n), ValueError) << n;
  }
  try {
    polygamma(x, 2.5);
    FAIL();
  } catch (const ValueError& error) {
    EXPECT_STREQ(error.what(), "polygamma: n is 2.5, must be an integer from 0 to 100");
  }
  // The gradient of the largest order has order 101.
  const Tensor at = scalar(40, float64).requires_grad_();
  EXPECT_DOUBLE_EQ(number(grad(polygamma(at, 100), {at})[0]), 0.00039893126089834762);
  EXPECT_EQ(number(polygamma(ones({}), 0)), number(digamma(ones({}))));
}

// n! / f^(n + 1) with the distance f to the pole exceeds the largest number, with the sign of f.
TEST(Polygamma, OverflowsNextToThePolesBelow0) {
  for (DType dtype : {DType::float32, DType::float64}) {
    const Tensor x = vector_of({-2.0000604, -4.999977, -19.999945, -6.0198, 1e-30, -1e-30}, dtype);
    EXPECT_EQ(polygamma(x, 100).to(float64).to_vector<double>(),
              (std::vector<double>{infinity, -infinity, -infinity, infinity, -infinity, infinity}))
        << name(dtype);
    EXPECT_EQ(polygamma(x, 99).to(float64).to_vector<double>(), std::vector<double>(6, infinity))
        << name(dtype);
  }
}

// The leading digits of all terms cancel in the doubles beside the zeros below 0.
TEST(Gamma, KeepsItsDigitsBesideTheZerosBelow0) {
  struct Case {
    int order;  // of polygamma; -1 is lgamma
    double x;
    long double exact;
  };
  for (const Case& c : std::initializer_list<Case>{
           {-1, -2.4570247382208006, 5.61919235895009645091e-17L},
           {-1, -2.747682646727413, 1.02349318570702837128e-15L},
           {-1, -3.955294284858598, -4.14382750757704995072e-16L},
           {0, -0.5040830082644554, 7.28976390297689494446e-17L},
           {0, -5.6671624415568855, 4.18677944645248008775e-17L},
           {0, -87.80536027839507, -3.81939076231092400317e-16L},
           {0, -2977.8808777877402, 1.31705781402396642903e-16L},
           {2, -0.49571567691303836, 6.38399229751194379847e-15L},
           {2, -2.4994443912584825, -2.00439257464589296252e-15L},
           {4, -0.49977397564859133, -3.1268956091029647457e-14L},
           {4, -2.4999955795487976, 6.62621812473039203069e-14L},
       }) {
    // Vectors and the loop of their remainder.
    const Tensor x = full({19}, c.x, DType::float64);
    const Tensor got = c.order < 0 ? lgamma(x) : polygamma(x, c.order);
    for (double value : values_of(got)) {
      EXPECT_LE(ulp_error(format_of(DType::float64), value, c.exact), 2)
          << "order " << c.order << " at " << c.x << ": got " << value;
    }
    if (c.order == 0) {
      EXPECT_EQ(values_of(digamma(x)), values_of(got)) << c.x;
    }
  }
}

// With the default eps no gradient is NaN or infinite at a singular point; with 0 it follows IEEE.
TEST_P(UnaryEps, KeepsGradientsFinite) {
  const UnaryRow& row = GetParam();
  for (DType dtype : float_dtypes) {
    const Tensor saved = vector_of({0, -0.0, 1e-12, 1e-38}, dtype);
    const Tensor g = ones({4}, dtype);
    if (dtype != DType::float16) {  // which may overflow on 1e10
      EXPECT_TRUE(all(isfinite(row.backward(g, saved))).item<bool>()) << name(dtype);
    }
    EXPECT_FALSE(any(isnan(row.backward(g, saved))).item<bool>()) << name(dtype);
  }
  // Where the denominator is far from 0, eps has no effect.
  const Tensor x = draw::inputs_of(row, {50}, 1), g = ones({50}, DType::float64);
  EXPECT_TRUE(compare::identical(row.backward(g, x), row.backward_eps(g, x, 0)));
}

std::vector<UnaryRow> rows_with_eps() {
  std::vector<UnaryRow> rows = op_database::unary_rows();
  std::erase_if(rows, [](const UnaryRow& row) { return !row.backward_eps; });
  return rows;
}

INSTANTIATE_TEST_SUITE_P(Rows, UnaryEps, ::testing::ValuesIn(rows_with_eps()),
                         [](const auto& info) { return info.param.label; });
INSTANTIATE_TEST_SUITE_P(Rows, UnarySpecial, ::testing::ValuesIn(op_database::unary_rows()),
                         [](const auto& info) { return info.param.label; });
INSTANTIATE_TEST_SUITE_P(Rows, BinarySpecial, ::testing::ValuesIn(op_database::binary_rows()),
                         [](const auto& info) { return info.param.name; });

// ---- rules of the gradients

TEST(GradientRule, EpsAndIeeeAtSingularPoints) {
  const Tensor g = ones({}, DType::float64);
  const auto at = [](double x) { return full({}, x, DType::float64); };
  EXPECT_EQ(number(log_backward(g, at(0))), 1e10);
  EXPECT_EQ(number(log_backward(g, at(-1e-20))), -1e10);
  EXPECT_EQ(number(log_backward(g, at(0), 0)), infinity);
  EXPECT_EQ(number(log_backward(g, at(1e-10), 1e-10)), 1 / 1e-10);
  EXPECT_EQ(number(log_backward(g, at(1e-5))), 1 / 1e-5);
  EXPECT_EQ(number(sqrt_backward(g, at(0))), 0.5 / 1e-10);
  EXPECT_EQ(number(sqrt_backward(g, at(0), 0)), infinity);
  EXPECT_DOUBLE_EQ(number(reciprocal_backward(g, at(0))), -1e20);
  EXPECT_EQ(number(reciprocal_backward(g, at(0), 0)), -infinity);
  EXPECT_DOUBLE_EQ(number(log2_backward(g, at(0))), 1e10 / std::log(2.0));
  EXPECT_DOUBLE_EQ(number(log10_backward(g, at(0))), 1e10 / std::log(10.0));
  EXPECT_DOUBLE_EQ(number(rsqrt_backward(g, at(0))), -0.5 / 1e-15);
  const auto divided = divide_backward(g, at(3), at(0));
  EXPECT_EQ(number(divided.first), 1e10);
  EXPECT_DOUBLE_EQ(number(divided.second), -3e20);
  const auto ieee = divide_backward(g, at(3), at(0), 0);
  EXPECT_EQ(number(ieee.first), infinity);
  EXPECT_EQ(number(ieee.second), -infinity);
}

// Divided by b twice rather than by b²: exact down to eps, also in float32.
TEST(GradientRule, DivideIsExactDownToEps) {
  for (DType dtype : {DType::float32, DType::float64}) {
    for (double b : {1e-10, 2e-10, -1e-9, 1e-5, 1e15, -1e18}) {
      const Tensor divisor = full({}, b, dtype), one = ones({}, dtype);
      const double exact = number(divisor);
      const double grad_b = number(divide_backward(one, full({}, 1e-3, dtype), divisor).second);
      const double expected = -number(full({}, 1e-3, dtype)) / exact / exact;
      EXPECT_NEAR(grad_b / expected, 1, dtype == DType::float32 ? 1e-6 : 1e-15) << b;
    }
  }
}

TEST(GradientRule, TiesOfMaximumAndMinimumAreHalfEach) {
  const Tensor a = vector_of({1, 2, 3, nan, 1, nan}), b = vector_of({1, 3, 2, 1, nan, nan});
  const Tensor g = full({6}, 8, DType::float64);
  const auto maximum = maximum_backward(g, a, b), minimum = minimum_backward(g, a, b);
  expect_values(maximum.first, {4, 0, 8, 8, 0, 8});
  expect_values(maximum.second, {4, 8, 0, 0, 8, 8});
  expect_values(minimum.first, {4, 8, 0, 8, 0, 8});
  expect_values(minimum.second, {4, 0, 8, 0, 8, 8});
}

TEST(GradientRule, KinksAtZeroAndClipBounds) {
  const Tensor g = full({3}, 5, DType::float64), around = vector_of({-1, 0, 1});
  expect_values(relu_backward(g, around), {0, 0, 5}, "relu");
  expect_values(abs_backward(g, around), {-5, 0, 5}, "abs");
  for (auto zero : {sign_backward, ceil_backward, floor_backward, round_backward, trunc_backward}) {
    expect_values(zero(g, around), {0, 0, 0}, "steps");
  }
  const Tensor five = full({6}, 5, DType::float64);
  const Tensor x = vector_of({-2, -1.5, 0, 2, 2.5, nan});
  expect_values(clip(x, -1.5, 2), {-1.5, -1.5, 0, 2, 2, nan}, "clip");
  expect_values(clip_backward(five, x, -1.5, 2), {0, 5, 5, 5, 0, 0}, "clip_backward");
  EXPECT_THROW(clip(x, 2, -1.5), ValueError);
  EXPECT_THROW(clip_backward(five, x, 2, -1.5), ValueError);
}

// Squares and reciprocals are rounded once, in every layout and at every length.
TEST(GradientRule, PowersWithOneExponent) {
  const Tensor special = vector_of(
      {0, -0.0, 1, -1, 3, -1.1, 1e200, 1e-200, 1e30, 1e-30, 5e-324, nan, infinity, -infinity, 7});
  for (const DType dtype : {DType::float32, DType::float64}) {
    const auto rounded = [dtype](double value) {
      return dtype == DType::float32 ? static_cast<double>(static_cast<float>(value)) : value;
    };
    for (const std::int64_t copies : {1, 3, 40}) {
      const Tensor dense = tile(special.to(dtype), {copies, 2});
      for (const Tensor& x : {dense, dense.transpose(), dense.slice(1, {}, {}, 2)}) {
        std::vector<double> squares, reciprocals;
        for (const double value : values_of(x)) {
          squares.push_back(rounded(value * value));
          reciprocals.push_back(rounded(1 / value));
        }
        expect_values(power(x, 2), squares, "2");
        expect_values(power(x, full({}, 2, dtype)), squares, "2 as a tensor");
        expect_values(power(x, -1), reciprocals, "-1");
        expect_values(power(x, full({1}, -1, dtype)), reciprocals, "-1 as a tensor");
      }
    }
  }
  expect_values(power(vector_of({-0.0, -infinity, 4}), 0.5), {0, infinity, 2}, "square root");
}

TEST(GradientRule, PowerCorners) {
  const auto at = [](double a, double b, double eps) {
    const auto gradients = power_backward(ones({}, DType::float64), full({}, a, DType::float64),
                                          full({}, b, DType::float64), eps);
    return std::pair{number(gradients.first), number(gradients.second)};
  };
  EXPECT_EQ(number(power(zeros({}, DType::float64), 0.0)), 1);
  for (double eps : {default_eps, 0.0}) {
    EXPECT_EQ(at(0, 0, eps), (std::pair{0.0, 0.0})) << eps;
    EXPECT_EQ(at(0, 2, eps), (std::pair{0.0, 0.0})) << eps;
    EXPECT_EQ(at(0, 1, eps), (std::pair{1.0, 0.0})) << eps;
    EXPECT_EQ(at(-2, 3, eps).first, 12) << eps;
    EXPECT_EQ(at(-2, -1, eps).first, -0.25) << eps;
    EXPECT_EQ(at(-2, 2, eps).first, -4) << eps;
    EXPECT_EQ(at(-3, 1, eps).first, 1) << eps;
    EXPECT_EQ(at(5, 0, eps), (std::pair{0.0, std::log(5.0)})) << eps;
  }
  EXPECT_EQ(at(0, 0.5, 0).first, infinity);
  EXPECT_EQ(at(0, 0.5, 0).second, 0);
  // For an exponent below 1 the floor applies to the base: it is eps, with the sign of the base.
  EXPECT_DOUBLE_EQ(at(0, 0.5, default_eps).first, 0.5 * std::pow(default_eps, -0.5));
  EXPECT_DOUBLE_EQ(at(1e-30, -1, default_eps).first, -1e20);
  EXPECT_DOUBLE_EQ(at(-1e-30, -3, default_eps).first, -3e40);
  EXPECT_DOUBLE_EQ(at(0, -1, default_eps).second, 1e10 * std::log(1e-10));
  EXPECT_EQ(at(0, -1, 0), (std::pair{-infinity, -infinity}));
  // Where the base is at least eps, the gradient is exact.
  EXPECT_NEAR(at(0.1, -12, default_eps).first / -1.2e14, 1, 1e-14);
  EXPECT_NEAR(at(1e-4, -2, default_eps).first / -2e12, 1, 1e-14);
  EXPECT_NEAR(at(1e-4, -2, default_eps).second / (1e8 * std::log(1e-4)), 1, 1e-14);
}

// The sign of the divisor, as in Python for floats and integers.
TEST(GradientRule, ModuloAndFloorDivide) {
  const Tensor a = vector_of({7, -7, 7, -7, 6, -6, 5.5, -5.5});
  const Tensor b = vector_of({3, 3, -3, -3, 3, -3, 2, 2});
  expect_values(modulo(a, b), {1, 2, -2, -1, 0, 0, 1.5, 0.5}, "modulo");
  expect_values(floor_divide(a, b), {2, -3, -3, 2, 2, 2, 2, -3}, "floor_divide");
  const Tensor g = full({8}, 2, DType::float64);
  const auto gradients = modulo_backward(g, a, b);
  expect_values(gradients.first, {2, 2, 2, 2, 2, 2, 2, 2}, "grad_a");
  expect_values(gradients.second, {-4, 6, 6, -4, -4, -4, -4, 6}, "grad_b");
  const Tensor i = tensor({7, -7, 7, -7, 6}), j = tensor({3, 3, -3, -3, -3});
  EXPECT_EQ(modulo(i, j).to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 2, -2, -1, 0}));
  EXPECT_EQ(floor_divide(i, j).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{2, -3, -3, 2, -2}));
  // Beyond the range that a double represents exactly.
  const std::int64_t large = 9007199254740993;
  EXPECT_EQ(floor_divide(tensor({large}), 1).item<std::int64_t>(), large);
  EXPECT_EQ(floor_divide(tensor({INT64_MAX}), 2).item<std::int64_t>(), INT64_MAX / 2);
  EXPECT_EQ(modulo(tensor({large}), 2).item<std::int64_t>(), 1);
  EXPECT_EQ(floor_divide(tensor({INT64_MIN}), -1).item<std::int64_t>(), INT64_MIN);  // wraps
  EXPECT_EQ(modulo(tensor({INT64_MIN}), -1).item<std::int64_t>(), 0);
}

// The special cases of the Array API, one at a time and in a vector with others.
TEST(GradientRule, FloorDivideOfInfinities) {
  const Tensor a = vector_of({infinity, infinity, -infinity, -infinity, 3, 3, -3, -3, 0, -0.0, 7});
  const Tensor b =
      vector_of({2, -2, 2, -2, infinity, -infinity, infinity, -infinity, -infinity, -infinity, 2});
  const std::vector<double> expected{infinity, -infinity, -infinity, infinity, 0, -0.0,
                                     -0.0,     0,         -0.0,      0,        3};
  for (const DType dtype : {DType::float32, DType::float64}) {
    expect_values(floor_divide(a.to(dtype), b.to(dtype)), expected, "in a vector");
    for (std::int64_t k = 0; k < a.numel(); ++k) {
      expect_values(floor_divide(a.to(dtype)[k].reshape({1}), b.to(dtype)[k].reshape({1})),
                    {expected[static_cast<std::size_t>(k)]}, "alone");
    }
    expect_values(floor_divide(vector_of({infinity, -infinity}).to(dtype), infinity), {nan, nan},
                  "both");
  }
}

TEST(Promotion, NumbersAreWeakOnBothSidesOfARemainder) {
  const Tensor x = tensor({3}, int8);
  EXPECT_EQ(remainder(5, x).dtype(), int8);
  EXPECT_EQ(remainder(x, 5).dtype(), int8);
}

TEST(GradientRule, IntegerDivisionByZeroWritesNothing) {
  Tensor a = tensor({1, 2, 3});
  const Tensor before = a.clone(), b = tensor({1, 0, 2});
  EXPECT_THROW(floor_divide(a, b), ValueError);
  EXPECT_THROW(modulo(a, b), ValueError);
  EXPECT_THROW(floor_divide_(a, b), ValueError);
  EXPECT_THROW(modulo_(a, 0), ValueError);
  EXPECT_THROW(modulo(5, b), ValueError);
  EXPECT_THROW(power(a, tensor({1, -1, 2})), ValueError);
  EXPECT_TRUE(compare::identical(a, before));
  expect_values(divide(a, b), {1, infinity, 1.5});
  EXPECT_EQ(divide(a, b).dtype(), DType::float32);
}

// A function that also supports integers has gradients only for floats, and its documentation says
// so. The exception is relu_backward.
TEST(GradientRule, IntegersHaveNoGradient) {
  const Tensor integers = tensor({-1, 0, 2});
  EXPECT_EQ(relu_backward(integers, integers).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{0, 0, 2}));
  EXPECT_THROW(relu_backward(ones({3}), integers), DTypeError);
  EXPECT_THROW(multiply_backward(integers, integers, integers), DTypeError);
  const std::string page = op_database::reference_page();
  for (const UnaryRow& row : op_database::unary_rows()) {
    const std::size_t section = page.find("\n### " + row.name + "\n");
    ASSERT_NE(section, std::string::npos) << row.name;
    const std::size_t dtypes = page.find("Dtypes: ", section);
    const std::string line = page.substr(dtypes, page.find('\n', dtypes) - dtypes);
    EXPECT_TRUE(line.ends_with("gradients of floats only.")) << row.name << ": " << line;
  }
}

TEST(GradientRule, RoundHalfToEven) {
  for (DType dtype : float_dtypes) {
    expect_values(round(vector_of({0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3.5}, dtype)),
                  {0, 2, 2, 0, -2, -2, 4}, name(dtype));
  }
}

// ---- tails

TEST(Tail, NoOverflowAndNothingLost) {
  const auto f32 = [](double x) { return full({}, x, DType::float32); };
  EXPECT_NEAR(number(sigmoid(f32(-88))) / std::exp(-88.0), 1, 1e-6);
  EXPECT_GT(number(sigmoid(f32(-100))), 0);  // subnormal
  EXPECT_EQ(number(sigmoid(f32(1000))), 1);
  EXPECT_EQ(number(softplus(f32(1000))), 1000);
  EXPECT_NEAR(number(softplus(f32(-80))) / std::exp(-80.0), 1, 1e-6);
  EXPECT_NEAR(number(log_sigmoid(f32(50))) / -std::exp(-50.0), 1, 1e-6);
  EXPECT_EQ(number(log_sigmoid(f32(-1000))), -1000);
  EXPECT_EQ(number(tanh(f32(100))), 1);
  EXPECT_EQ(number(logaddexp(f32(1000), f32(1000))), static_cast<float>(1000 + std::log(2.0)));
}

// Exactly x or 0, and a gradient of 1 or 0, for arguments of any magnitude.
TEST(Tail, ActivationsFarOut) {
  for (const UnaryRow& row : op_database::unary_rows()) {
    const std::string& name = row.name;
    if (name != "gelu" && name != "gelu_tanh" && name != "silu" && name != "mish") continue;
    for (DType dtype : float_dtypes) {
      const double most = number(full({}, dtype == DType::float16 ? 65504 : 3e38, dtype));
      const Tensor x = vector_of({most, infinity, -most, -infinity, nan}, dtype);
      expect_values(row.forward(x), {most, infinity, 0, 0, nan}, name.c_str());
      expect_values(row.backward(ones({5}, dtype), x), {1, 1, 0, 0, nan}, name.c_str());
    }
  }
}

}  // namespace
}  // namespace extensor
