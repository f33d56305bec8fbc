// Initializers: their distributions (mean, variance, Kolmogorov–Smirnov), fans and gains,
// orthogonality, and identical values for any number of threads.
#include "extensor/initializers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/truncated_normal.h"
#include "extensor/extensor.h"
#include "support/compare.h"

namespace extensor {
namespace {

using compare::identical;
using compare::values_of;

constexpr DType float_dtypes[] = {DType::float16, DType::bfloat16, DType::float32, DType::float64};

using Distribution = std::function<double(double)>;

double normal_distribution(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

// The largest distance between the distribution of the values and the expected one, times √n: above
// 1.95 in one of a thousand draws.
double kolmogorov_smirnov(std::vector<double> values, const Distribution& expected) {
  std::ranges::sort(values);
  const double n = static_cast<double>(values.size());
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double p = expected(values[i]);
    worst = std::max({worst, p - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - p});
  }
  return worst * std::sqrt(n);
}

// Mean and variance within five standard errors; `kurtosis` is E[(x − mean)⁴] / variance².
void expect_moments(const std::vector<double>& values, double mean, double variance,
                    double kurtosis) {
  const double n = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (double value : values) sum += value;
  for (double value : values) squares += (value - mean) * (value - mean);
  EXPECT_NEAR(sum / n, mean, 5 * std::sqrt(variance / n));
  EXPECT_NEAR(squares / n, variance, 5 * variance * std::sqrt((kurtosis - 1) / n));
}

void expect_uniform(const Tensor& x, double bound) {
  const auto values = values_of(x);
  const double spacing = std::ldexp(bound, 1 - compare::format_of(x.dtype()).digits);
  for (double value : values) ASSERT_LE(std::fabs(value), bound + spacing);
  expect_moments(values, 0, bound * bound / 3, 9.0 / 5);
  if (!is_half(x.dtype())) {
    EXPECT_LT(kolmogorov_smirnov(values, [=](double v) { return (v + bound) / (2 * bound); }),
              1.95);
  }
}

void expect_normal(const Tensor& x, double deviation) {
  const auto values = values_of(x);
  expect_moments(values, 0, deviation * deviation, 3);
  if (!is_half(x.dtype())) {
    EXPECT_LT(
        kolmogorov_smirnov(values, [=](double v) { return normal_distribution(v / deviation); }),
        1.95);
  }
}

// ---- fans and gains

TEST(Initializers, FansOfLinearAndConvolutionWeights) {
  const std::tuple<Shape, std::int64_t, std::int64_t> cases[] = {
      {{5, 3}, 3, 5}, {{8, 4, 3, 3}, 36, 72}, {{8, 1, 5}, 5, 40}, {{0, 3}, 3, 0}};
  for (const auto& [shape, fan_in, fan_out] : cases) {
    EXPECT_EQ(calculate_fans(shape).fan_in, fan_in) << shape;
    EXPECT_EQ(calculate_fans(shape).fan_out, fan_out) << shape;
  }
  EXPECT_THROW(calculate_fans({3}), ShapeError);
  EXPECT_THROW(calculate_fans({}), ShapeError);
  EXPECT_THROW(calculate_fans({2, -1}), ShapeError);
  EXPECT_THROW(calculate_fans({std::int64_t{1} << 40, std::int64_t{1} << 40}), ShapeError);
}

TEST(Initializers, Gains) {
  EXPECT_EQ(calculate_gain(Nonlinearity::linear), 1);
  EXPECT_EQ(calculate_gain(Nonlinearity::sigmoid), 1);
  EXPECT_DOUBLE_EQ(calculate_gain(Nonlinearity::tanh), 5.0 / 3);
  EXPECT_DOUBLE_EQ(calculate_gain(Nonlinearity::relu), std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(calculate_gain(Nonlinearity::leaky_relu), std::sqrt(2 / 1.0001));
  EXPECT_DOUBLE_EQ(calculate_gain(Nonlinearity::leaky_relu, std::sqrt(5.0)), std::sqrt(1.0 / 3));
  EXPECT_EQ(calculate_gain(Nonlinearity::selu), 0.75);
}

// ---- distributions

TEST(Initializers, XavierAndKaimingHaveTheirVariance) {
  const Shape shape{60, 40, 3, 3};  // fan_in 360, fan_out 540
  for (DType dtype : float_dtypes) {
    SCOPED_TRACE(name(dtype));
    Generator generator(42);
    expect_uniform(xavier_uniform(shape, 2, dtype, generator), 2 * std::sqrt(6.0 / 900));
    expect_normal(xavier_normal(shape, 0.5, dtype, generator), 0.5 * std::sqrt(2.0 / 900));
    expect_uniform(kaiming_uniform(shape, std::sqrt(5.0), FanMode::fan_in, Nonlinearity::leaky_relu,
                                   dtype, generator),
                   std::sqrt(3.0) * std::sqrt(1.0 / 3) / std::sqrt(360.0));
    expect_uniform(
        kaiming_uniform(shape, 0, FanMode::fan_out, Nonlinearity::tanh, dtype, generator),
        std::sqrt(3.0) * 5 / 3 / std::sqrt(540.0));
    expect_normal(kaiming_normal(shape, 0, FanMode::fan_in, Nonlinearity::relu, dtype, generator),
                  std::sqrt(2.0 / 360));
    expect_normal(
        kaiming_normal(shape, 0.2, FanMode::fan_out, Nonlinearity::leaky_relu, dtype, generator),
        std::sqrt(2.0 / 1.04 / 540));
  }
  // The defaults are PyTorch's: the bound of kaiming_uniform({out, in}) is √(6 / in).
  Generator generator(1);
  expect_uniform(kaiming_uniform({200, 100}, 0, FanMode::fan_in, Nonlinearity::leaky_relu,
                                 DType::float32, generator),
                 std::sqrt(6.0 / 100));
}

TEST(Initializers, TruncNormalFollowsTheConditionedNormal) {
  struct Case {
    double mean, deviation, lower, upper;
  };
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const Case& c : {Case{0, 1, -2, 2}, Case{0, 0.02, -0.04, 0.04}, Case{1, 2, 0, 1.5},
                        Case{0, 1, 4, 5}, Case{0, 1, -7, -6}, Case{3, 0.5, -infinity, 3},
                        Case{0, 1, -infinity, infinity}, Case{0, 1, 10, infinity}}) {
    // Distances from the nearer tail, where probabilities have a fine resolution.
    const bool above = c.lower > c.mean;
    const auto tail = [&](double x) {
      const double z = (x - c.mean) / c.deviation;
      return normal_distribution(above ? -z : z);
    };
    for (DType dtype : float_dtypes) {
      SCOPED_TRACE(testing::Message() << name(dtype) << " " << c.mean << " " << c.deviation << " "
                                      << c.lower << " " << c.upper);
      Generator generator(11);
      const Tensor x =
          trunc_normal({100, 201}, c.mean, c.deviation, c.lower, c.upper, dtype, generator);
      EXPECT_EQ(x.dtype(), dtype);
      EXPECT_EQ(generator.offset(), 20100u);
      const auto values = values_of(x);
      const double spacing = std::ldexp(8.0, 1 - compare::format_of(dtype).digits);
      for (double value : values) {
        ASSERT_GE(value, c.lower - spacing);
        ASSERT_LE(value, c.upper + spacing);
      }
      if (is_half(dtype)) continue;
      EXPECT_LT(kolmogorov_smirnov(values,
                                   [&](double v) {
                                     const double p = (tail(v) - tail(c.lower)) /
                                                      (tail(c.upper) - tail(c.lower));
                                     return std::clamp(p, 0.0, 1.0);
                                   }),
                1.95);
    }
  }
}

TEST(Initializers, InverseNormalIsExact) {
  for (int i = -3700; i <= 0; ++i) {
    const double z = i * 0.01;
    const double back = detail::inverse_normal(normal_distribution(z));
    EXPECT_NEAR(back, z, 1e-14 * std::max(1.0, std::fabs(z))) << z;
  }
  // Above the median the resolution of a probability is that of 1 − p.
  for (int i = 0; i <= 300; ++i) {
    const double z = i * 0.01, p = normal_distribution(z);
    EXPECT_NEAR(detail::inverse_normal(p), z, 1e-12);
    EXPECT_NEAR(detail::inverse_normal(p), -detail::inverse_normal(1 - p), 1e-12);
  }
}

TEST(Initializers, Constant) {
  for (DType dtype : float_dtypes) {
    EXPECT_TRUE(identical(constant({2, 3}, 0.5, dtype), full({2, 3}, 0.5, dtype)));
  }
  EXPECT_EQ(constant({}, 3).dtype(), DType::float32);
  EXPECT_THROW(constant({1}, 300, DType::int8), ValueError);
}

// ---- orthogonal

TEST(Initializers, OrthogonalRowsOrColumns) {
  const Shape shapes[] = {{1, 1},    {3, 3},       {5, 3},        {3, 5}, {64, 64},  {100, 37},
                          {37, 100}, {8, 4, 3, 3}, {64, 2, 3, 3}, {1, 9}, {130, 129}};
  for (const Shape& shape : shapes) {
    for (const auto& [dtype, tolerance] :
         {std::pair{DType::float64, 1e-12}, std::pair{DType::float32, 1e-6}}) {
      SCOPED_TRACE(testing::Message() << shape << " " << name(dtype));
      Generator generator(5);
      const Tensor x = orthogonal(shape, 1, dtype, generator);
      EXPECT_EQ(x.shape(), shape);
      EXPECT_EQ(x.dtype(), dtype);
      Tensor flat = x.reshape({shape[0], x.numel() / shape[0]}).to(DType::float64);
      if (flat.size(0) > flat.size(1)) flat = flat.transpose();
      const Tensor distance =
          abs(matmul(flat, flat.transpose()) - eye(flat.size(0), {}, 0, DType::float64));
      EXPECT_LE(max_reduce(distance).item<double>(), tolerance);
    }
  }
  Generator generator(6);
  const Tensor scaled = orthogonal({4, 4}, 3, DType::float64, generator);
  EXPECT_NEAR(sum(square(scaled)).item<double>(), 36, 1e-11);
  EXPECT_EQ(orthogonal({0, 3}).shape(), (Shape{0, 3}));
  EXPECT_EQ(orthogonal({3, 0}).shape(), (Shape{3, 0}));
  EXPECT_EQ(orthogonal({3, 4}, 1, DType::bfloat16).dtype(), DType::bfloat16);
}

// A uniformly distributed rotation maps e₁ to a uniform point of the sphere: in three dimensions
// each of its coordinates is uniform in [−1, 1] (Archimedes).
TEST(Initializers, OrthogonalIsDrawnUniformly) {
  Generator generator(7);
  std::vector<std::vector<double>> coordinates(9);
  for (int i = 0; i < 2000; ++i) {
    const auto values = values_of(orthogonal({3, 3}, 1, DType::float64, generator));
    for (std::size_t k = 0; k < 9; ++k) coordinates[k].push_back(values[k]);
  }
  for (const auto& values : coordinates) {
    EXPECT_LT(kolmogorov_smirnov(values, [](double v) { return (v + 1) / 2; }), 1.95);
  }
}

// ---- common guarantees

using Make = std::function<Tensor(DType, Generator&)>;

std::vector<std::pair<const char*, Make>> every_initializer(const Shape& shape) {
  return {
      {"uniform", [=](DType t, Generator& g) { return uniform(shape, -1, 1, t, g); }},
      {"normal", [=](DType t, Generator& g) { return normal(shape, 0, 1, t, g); }},
      {"trunc_normal",
       [=](DType t, Generator& g) { return trunc_normal(shape, 0, 1, -2, 2, t, g); }},
      {"xavier_uniform", [=](DType t, Generator& g) { return xavier_uniform(shape, 1, t, g); }},
      {"xavier_normal", [=](DType t, Generator& g) { return xavier_normal(shape, 1, t, g); }},
      {"kaiming_uniform",
       [=](DType t, Generator& g) {
         return kaiming_uniform(shape, 0, FanMode::fan_in, Nonlinearity::relu, t, g);
       }},
      {"kaiming_normal",
       [=](DType t, Generator& g) {
         return kaiming_normal(shape, 0, FanMode::fan_in, Nonlinearity::relu, t, g);
       }},
      {"orthogonal", [=](DType t, Generator& g) { return orthogonal(shape, 1, t, g); }},
  };
}

TEST(Initializers, TheSameForAnyNumberOfThreads) {
  const int before = get_num_threads();
  for (DType dtype : float_dtypes) {
    for (const auto& [label, make] : every_initializer({130, 101})) {
      set_num_threads(1);
      Generator first(3, 9);
      const Tensor expected = make(dtype, first);
      for (int threads : {2, 4}) {
        set_num_threads(threads);
        Generator again(3, 9);
        EXPECT_TRUE(identical(make(dtype, again), expected))
            << label << " " << name(dtype) << " with " << threads;
        EXPECT_EQ(again.offset(), first.offset()) << label;
        EXPECT_FALSE(identical(make(dtype, again), expected)) << label;  // later draws differ
      }
    }
  }
  set_num_threads(before);
}

TEST(Initializers, EmptyShapesAndWrongArguments) {
  for (const Shape& shape : {Shape{0, 3}, Shape{3, 0}, Shape{0, 0}, Shape{4, 2, 0}}) {
    Generator generator(1);
    for (const auto& [label, make] : every_initializer(shape)) {
      EXPECT_EQ(make(DType::float32, generator).shape(), shape) << label;
    }
  }
  Generator generator(1);
  for (const auto& [label, make] : every_initializer({2, 3})) {
    EXPECT_THROW(make(DType::int32, generator), DTypeError) << label;
  }
  EXPECT_EQ(generator.offset(), 0u);
  const double nan = std::nan("");
  EXPECT_THROW(xavier_uniform({3}), ShapeError);
  EXPECT_THROW(xavier_normal({}), ShapeError);
  EXPECT_THROW(kaiming_uniform({3}), ShapeError);
  EXPECT_THROW(kaiming_normal({3}), ShapeError);
  EXPECT_THROW(orthogonal({3}), ShapeError);
  EXPECT_THROW(xavier_uniform({3, 3}, nan), ValueError);
  EXPECT_THROW(xavier_normal({3, 3}, INFINITY), ValueError);
  EXPECT_THROW(kaiming_uniform({3, 3}, nan), ValueError);
  EXPECT_THROW(orthogonal({3, 3}, nan), ValueError);
  EXPECT_THROW(trunc_normal({3}, 0, 0), ValueError);
  EXPECT_THROW(trunc_normal({3}, 0, -1), ValueError);
  EXPECT_THROW(trunc_normal({3}, nan, 1), ValueError);
  EXPECT_THROW(trunc_normal({3}, 0, 1, 2, -2), ValueError);
  EXPECT_THROW(trunc_normal({3}, 0, 1, 2, 2), ValueError);
  EXPECT_THROW(trunc_normal({3}, 0, 1, nan, 2), ValueError);
  EXPECT_THROW(trunc_normal({3}, 0, 1, 50, 60), ValueError);  // no probability remains there
}

}  // namespace
}  // namespace extensor
