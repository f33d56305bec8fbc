// Reductions: values against plain loops in long double, their rules, their gradients, and
// identical bits for any number of threads.
#include "extensor/reduction.h"

#include <gtest/gtest.h>

#include <numeric>

#include "support/family_test.h"

namespace extensor {
namespace {

using namespace family_test;

double number(const Tensor& x) { return x.to(DType::float64).item<double>(); }

// Every subset of the axes of a rank, and all of them by default.
std::vector<Axes> axes_of(std::int64_t rank) {
  std::vector<Axes> result{Axes()};
  for (unsigned mask = 0; mask < 1u << rank; ++mask) {
    Dims list;
    for (std::int64_t axis = 0; axis < rank; ++axis) {
      // Some counted from the end.
      if ((mask >> axis & 1) != 0) list.push_back(axis % 2 == 0 ? axis : axis - rank);
    }
    result.push_back(Axes(list));
  }
  return result;
}

// The elements of x that are reduced to each element of the result, in row-major order of the
// result.
std::vector<std::vector<double>> groups(const Tensor& x, const Axes& axes) {
  std::vector<bool> reduced(static_cast<std::size_t>(x.ndim()), axes.all());
  for (std::int64_t axis : axes.list()) {
    reduced[static_cast<std::size_t>(axis < 0 ? axis + x.ndim() : axis)] = true;
  }
  std::int64_t count = 1;
  for (std::size_t d = 0; d < reduced.size(); ++d) count *= reduced[d] ? 1 : x.shape()[d];
  std::vector<std::vector<double>> result(static_cast<std::size_t>(count));
  const auto values = values_of(x);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::int64_t rest = static_cast<std::int64_t>(i), group = 0, scale = 1;
    for (std::size_t d = reduced.size(); d-- > 0;) {
      if (!reduced[d]) {
        group += rest % x.shape()[d] * scale;
        scale *= x.shape()[d];
      }
      rest /= x.shape()[d];
    }
    result[static_cast<std::size_t>(group)].push_back(values[i]);
  }
  return result;
}

long double total(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0L);
}

long double variance(const std::vector<double>& values, double correction) {
  const long double n = static_cast<long double>(values.size()), center = total(values) / n;
  long double squares = 0;
  for (double value : values) squares += (value - center) * (value - center);
  return n > correction ? squares / (n - correction) : not_a_number;
}

struct Reduction {
  const char* name;
  std::function<Tensor(const Tensor&, const Axes&, bool)> forward;
  std::function<Tensor(const Tensor&, const Tensor&, const Axes&)> backward;
  std::function<long double(const std::vector<double>&)> exact;
};

std::vector<Reduction> reductions() {
  const auto extreme = [](auto better) {
    return [better](const std::vector<double>& values) -> long double {
      double best = values[0];
      for (double value : values) {
        if (value != value || better(value, best)) best = value;
        if (best != best) break;
      }
      return best;
    };
  };
  return {
      {"sum", [](const Tensor& x, const Axes& axes, bool keep) { return sum(x, axes, keep); },
       [](const Tensor& g, const Tensor& x, const Axes& axes) {
         return sum_backward(g, x.shape(), axes);
       },
       total},
      {"mean", [](const Tensor& x, const Axes& axes, bool keep) { return mean(x, axes, keep); },
       [](const Tensor& g, const Tensor& x, const Axes& axes) {
         return mean_backward(g, x.shape(), axes);
       },
       [](const std::vector<double>& v) { return total(v) / static_cast<long double>(v.size()); }},
      {"max_reduce", max_reduce, max_reduce_backward, extreme(std::greater<>())},
      {"min_reduce", min_reduce, min_reduce_backward, extreme(std::less<>())},
      {"prod", [](const Tensor& x, const Axes& axes, bool keep) { return prod(x, axes, keep); },
       prod_backward,
       [](const std::vector<double>& v) {
         return std::accumulate(v.begin(), v.end(), 1.0L, std::multiplies<>());
       }},
      {"var", [](const Tensor& x, const Axes& axes, bool keep) { return var(x, axes, 0, keep); },
       [](const Tensor& g, const Tensor& x, const Axes& axes) { return var_backward(g, x, axes); },
       [](const std::vector<double>& v) { return variance(v, 0); }},
      {"std", [](const Tensor& x, const Axes& axes, bool keep) { return std(x, axes, 0, keep); },
       [](const Tensor& g, const Tensor& x, const Axes& axes) { return std_backward(g, x, axes); },
       [](const std::vector<double>& v) { return std::sqrt(variance(v, 0)); }},
  };
}

// ---- values

TEST(Reduction, ValuesInEveryLayoutOverEveryAxes) {
  for (const Reduction& op : reductions()) {
    for (DType dtype : float_dtypes) {
      const double limit = dtype == DType::float64   ? 1e-14
                           : dtype == DType::float32 ? 1e-6
                           : dtype == DType::float16 ? 0x1p-11 + 1e-6
                                                     : 0x1p-8 + 1e-6;
      for (const Shape& shape :
           {Shape{}, Shape{1}, Shape{17}, Shape{33, 5}, Shape{3, 17, 4}, Shape{2, 1, 9}}) {
        for (Layout layout : layouts::every_layout) {
          if (!layouts::is_distinct(layout, shape)) continue;
          const Tensor x = layouts::with_layout(
              draw::uniform(layouts::drawn_shape(layout, shape), 0.5, 1.25, 3).to(dtype), layout,
              shape);
          for (const Axes& axes : axes_of(x.ndim())) {
            SCOPED_TRACE(testing::Message() << op.name << " " << name(dtype) << " " << layout << " "
                                            << shape << " over " << axes.list());
            const Tensor got = op.forward(x, axes, false);
            EXPECT_EQ(got.dtype(), dtype);
            EXPECT_TRUE(identical(op.forward(x, axes, true).reshape(got.shape()), got));
            const auto results = values_of(got);
            const auto expected = groups(x, axes);
            ASSERT_EQ(results.size(), expected.size());
            for (std::size_t i = 0; i < results.size(); ++i) {
              const auto exact = static_cast<double>(op.exact(expected[i]));
              // The error of a deviation is relative to the elements.
              const double scale = std::string(op.name) == "std" ? 1 : 0.02;
              EXPECT_NEAR(results[i], exact, limit * std::max(scale, std::fabs(exact)));
            }
          }
        }
      }
    }
  }
}

TEST(Reduction, IntegersAccumulateIn64Bits) {
  const Tensor bytes = full({1000}, 100, DType::int8);
  EXPECT_EQ(sum(bytes).dtype(), DType::int64);
  EXPECT_EQ(sum(bytes).item<std::int64_t>(), 100000);
  EXPECT_EQ(sum(full({1000}, 200, DType::uint8)).dtype(), DType::uint64);
  EXPECT_EQ(sum(full({1000}, 200, DType::uint8)).item<std::uint64_t>(), 200000u);
  EXPECT_EQ(prod(full({40}, 2, DType::int8)).item<std::int64_t>(), std::int64_t{1} << 40);
  EXPECT_EQ(sum(tensor({true, false, true})).item<std::int64_t>(), 2);
  EXPECT_EQ(mean(tensor({1, 2})).dtype(), DType::float32);
  EXPECT_EQ(number(mean(tensor({1, 2}))), 1.5);
  EXPECT_EQ(number(var(tensor({1, 2, 3}))), static_cast<float>(2.0 / 3));
  EXPECT_EQ(max_reduce(tensor({INT64_MAX, std::int64_t{3}})).item<std::int64_t>(), INT64_MAX);
  EXPECT_EQ(sum(tensor({INT64_MAX, std::int64_t{1}})).item<std::int64_t>(), INT64_MIN);  // wraps
}

// ---- rules

TEST(Reduction, OfNothing) {
  for (DType dtype : float_dtypes) {
    const Tensor nothing = zeros({0}, dtype), rows = zeros({3, 0}, dtype);
    EXPECT_EQ(number(sum(nothing)), 0);
    EXPECT_EQ(number(prod(nothing)), 1);
    EXPECT_TRUE(std::isnan(number(mean(nothing))));
    EXPECT_TRUE(std::isnan(number(var(nothing))));
    EXPECT_TRUE(all(nothing).item<bool>());
    EXPECT_FALSE(any(nothing).item<bool>());
    for (auto extreme : {max_reduce, min_reduce}) {
      EXPECT_THROW(extreme(nothing, {}, false), ValueError);
      EXPECT_THROW(extreme(rows, 1, false), ValueError);
      EXPECT_EQ(extreme(rows, 0, false).shape(), Shape{0});
    }
    EXPECT_THROW(argmax(nothing), ValueError);
    EXPECT_THROW(argmin(rows, 1), ValueError);
    EXPECT_EQ(sum(rows, 1).to(DType::float64).to_vector<double>(), std::vector<double>(3, 0));
    EXPECT_EQ(sum_backward(ones({3}, dtype), {3, 0}, 1).shape(), (Shape{3, 0}));
    EXPECT_EQ(prod_backward(ones({3}, dtype), rows, 1).shape(), (Shape{3, 0}));
    EXPECT_EQ(var_backward(ones({3}, dtype), rows, 1).shape(), (Shape{3, 0}));
    EXPECT_EQ(mean_backward(ones({3}, dtype), {3, 0}, 1).shape(), (Shape{3, 0}));
  }
}

TEST(Reduction, NanPropagates) {
  for (DType dtype : float_dtypes) {
    for (std::int64_t size : {3, 8, 17, 100, 1500, 5000}) {
      for (std::int64_t at : {std::int64_t{0}, size / 2, size - 1}) {
        Tensor x = uniform({size}, -1, 1, dtype);
        x.slice(0, at, at + 1).fill(not_a_number);
        EXPECT_TRUE(std::isnan(number(max_reduce(x)))) << size << " " << at;
        EXPECT_TRUE(std::isnan(number(min_reduce(x))));
        EXPECT_EQ(argmax(x).item<std::int64_t>(), at);
        EXPECT_EQ(argmin(x).item<std::int64_t>(), at);
        const Tensor column = x.reshape({size, 1}).broadcast_to({size, 3}).contiguous();
        EXPECT_TRUE(all(isnan(max_reduce(column, 0))).item<bool>());
        EXPECT_EQ(argmax(column, 0).to_vector<std::int64_t>(), std::vector<std::int64_t>(3, at));
      }
    }
  }
  EXPECT_EQ(number(max_reduce(vector_of({-infinity, -infinity}))), -infinity);
  EXPECT_EQ(argmax(vector_of({-infinity, -infinity})).item<std::int64_t>(), 0);
  EXPECT_EQ(argmin(vector_of({infinity, infinity})).item<std::int64_t>(), 0);
}

// A sum of −0 only is −0, and a single 0 makes it 0, in every layout.
TEST(Reduction, SignOfASumOfZeros) {
  for (DType dtype : {float64, float32, float16, bfloat16}) {
    for (const Shape& shape : {Shape{1, 1}, Shape{1, 9}, Shape{9, 1}, Shape{40, 3}, Shape{3, 40},
                               Shape{300, 5}, Shape{2, 3000}}) {
      const Tensor negative = full(shape, -0.0, dtype);
      Tensor mixed = negative.clone();
      mixed.slice(0, 0, 1).slice(1, 0, 1).fill(0.0);
      for (bool transposed : {false, true}) {
        for (const Axes& axes : {Axes{0}, Axes{1}, Axes{0, 1}}) {
          const auto laid = [&](const Tensor& x) {
            return transposed ? x.transpose().contiguous().transpose() : x;
          };
          for (const Tensor& y : {sum(laid(negative), axes), mean(laid(negative), axes)}) {
            for (double each : y.to(float64).flatten().to_vector<double>()) {
              EXPECT_TRUE(std::signbit(each)) << shape << ", transposed " << transposed;
            }
          }
          const double first = sum(laid(mixed), axes).to(float64).flatten()[0].item<double>();
          EXPECT_FALSE(std::signbit(first)) << shape << ", transposed " << transposed;
        }
      }
    }
  }
}

TEST(Reduction, ArgmaxTakesTheFirst) {
  const Tensor x = vector_of({1, 5, 2, 5, -3, -3, 5, 0});
  EXPECT_EQ(argmax(x).item<std::int64_t>(), 1);
  EXPECT_EQ(argmin(x).item<std::int64_t>(), 4);
  Tensor large = zeros({200000});
  large.slice(0, 150000, 150001).fill(1);
  large.slice(0, 190000, 190001).fill(1);
  EXPECT_EQ(argmax(large).item<std::int64_t>(), 150000);
  EXPECT_EQ(argmax(x.reshape({2, 4}), 1, true).shape(), (Shape{2, 1}));
  EXPECT_EQ(argmax(x.reshape({2, 4}).transpose()).item<std::int64_t>(), 2);
}

TEST(Reduction, CorrectionBeyondTheCountIsNan) {
  const Tensor x = vector_of({1, 2, 4});
  EXPECT_DOUBLE_EQ(number(var(x, {}, 1)), 7.0 / 3);
  EXPECT_TRUE(std::isnan(number(var(x, {}, 3))));
  EXPECT_TRUE(std::isnan(number(std(x, {}, 4))));
  EXPECT_THROW(var(x, {}, -1), ValueError);
}

TEST(Reduction, TiesShareTheGradientEqually) {
  const Tensor x = vector_of({3, 1, 3, 3}), g = full({}, 6, DType::float64);
  EXPECT_EQ(max_reduce_backward(g, x).to_vector<double>(), (std::vector<double>{2, 0, 2, 2}));
  EXPECT_EQ(min_reduce_backward(g, x).to_vector<double>(), (std::vector<double>{0, 6, 0, 0}));
}

TEST(Reduction, WrongAxesAreRefused) {
  const Tensor x = ones({2, 3});
  for (const Reduction& op : reductions()) {
    EXPECT_THROW(op.forward(x, 2, false), IndexError) << op.name;
    EXPECT_THROW(op.forward(x, -3, false), IndexError) << op.name;
    EXPECT_THROW(op.forward(x, {0, 0}, false), Error) << op.name;
    EXPECT_THROW(op.forward(x, {0, -2}, false), Error) << op.name;
  }
}

// Pairwise: the error of ten million terms is that of a few.
TEST(Reduction, SumsAreAccurate) {
  const std::int64_t count = 10'000'000;
  const Tensor x = full({count}, 0.1f, DType::float32);
  const double exact = static_cast<double>(0.1f) * static_cast<double>(count);
  EXPECT_NEAR(number(sum(x)) / exact, 1, 1e-6);
  EXPECT_NEAR(number(mean(x)) / 0.1, 1, 1e-6);
  const Tensor matrix = x.reshape({5'000'000, 2});
  EXPECT_NEAR(number(sum(matrix, 0)[0]) * 2 / exact, 1, 1e-6);
  EXPECT_NEAR(number(sum(matrix.transpose(), 1)[1]) * 2 / exact, 1, 1e-6);
  // Halves are summed in float32.
  EXPECT_EQ(number(sum(ones({4096}, DType::float16))), 4096);
  EXPECT_EQ(number(mean(full({100000}, 3, DType::bfloat16))), 3);
}

TEST(Reduction, TheSameBitsForAnyNumberOfThreads) {
  const int before = get_num_threads();
  const Tensor base = draw::uniform({700, 611}, 0.9, 1.1, 5);
  for (DType dtype : float_dtypes) {
    for (Layout layout : {Layout::contiguous, Layout::transposed, Layout::stepped}) {
      const Tensor x = layouts::with_layout(base.to(dtype), layout, base.shape());
      for (const Reduction& op : reductions()) {
        for (const Axes& axes : {Axes(), Axes(0), Axes(1)}) {
          set_num_threads(1);
          const Tensor expected = op.forward(x, axes, false);
          for (int threads : {2, 4}) {
            set_num_threads(threads);
            EXPECT_TRUE(identical(op.forward(x, axes, false), expected))
                << op.name << " " << name(dtype) << " " << layout << " over " << axes.list()
                << " with " << threads;
          }
        }
      }
    }
  }
  set_num_threads(before);
}

// ---- gradients

// Distinct elements, so that the extremes have no tie within the stencil.
Tensor spread(const Shape& shape, unsigned seed) {
  std::vector<double> values(static_cast<std::size_t>(layouts::element_count(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.05 * static_cast<double>(i) - 0.8;
  std::shuffle(values.begin(), values.end(), std::mt19937(seed));
  return from_data(values, shape);
}

void check_gradients(const Reduction& op, const Tensor& x) {
  for (const Axes& axes : axes_of(x.ndim())) {
    for (bool keepdims : {false, true}) {
      SCOPED_TRACE(testing::Message() << op.name << " over " << axes.list() << x.shape());
      const bool spreads = std::string(op.name) == "std";
      const auto lengths = groups(x, axes);
      // The deviation of one element has a kink there.
      if (spreads && !lengths.empty() && lengths[0].size() == 1) continue;
      expect_gradient(
          op.name, [&](const Tensors& in) { return op.forward(in[0], axes, keepdims); },
          [&](const Tensor& g, const Tensors& in) { return Tensors{op.backward(g, in[0], axes)}; },
          {x});
    }
  }
}

TEST(ReductionGradient, MatchesFiniteDifferences) {
  for (const Reduction& op : reductions()) {
    for (const Shape& shape :
         {Shape{}, Shape{1}, Shape{9}, Shape{17}, Shape{5, 3}, Shape{2, 3, 4}}) {
      for (Layout layout :
           {Layout::contiguous, Layout::transposed, Layout::stepped, Layout::reversed}) {
        if (!layouts::is_distinct(layout, shape)) continue;
        check_gradients(op, layouts::with_layout(spread(shape, 3), layout, shape));
      }
    }
  }
  // The other names that the list above checks.
  const Tensor x = spread({4, 3}, 5);
  const auto gradient_of = [&](const Reduction& op) {
    return [&op](const Tensor& g, const Tensors& in) { return Tensors{op.backward(g, in[0], 1)}; };
  };
  const auto value_of = [&](const Reduction& op) {
    return [&op](const Tensors& in) { return op.forward(in[0], 1, false); };
  };
  const auto all_of_them = reductions();
  expect_gradient("sum_backward", value_of(all_of_them[0]), gradient_of(all_of_them[0]), {x});
  expect_gradient("mean_backward", value_of(all_of_them[1]), gradient_of(all_of_them[1]), {x});
  expect_gradient("max_reduce_backward", value_of(all_of_them[2]), gradient_of(all_of_them[2]),
                  {x});
  expect_gradient("min_reduce_backward", value_of(all_of_them[3]), gradient_of(all_of_them[3]),
                  {x});
  expect_gradient("prod_backward", value_of(all_of_them[4]), gradient_of(all_of_them[4]), {x});
  expect_gradient("var_backward", value_of(all_of_them[5]), gradient_of(all_of_them[5]), {x});
  expect_gradient("std_backward", value_of(all_of_them[6]), gradient_of(all_of_them[6]), {x});
}

TEST(ReductionGradient, ProductsWithZeros) {
  const Reduction product = reductions()[4];
  for (const auto& values : {std::vector<double>{2, 0, 3, -1}, std::vector<double>{0, 0, 3, 2},
                             std::vector<double>{0, 0, 0, 0}, std::vector<double>{-1, 2, -3, 0}}) {
    check_gradients(product, from_data(values));
    check_gradients(product, from_data(values, {2, 2}));
  }
}

TEST(ReductionGradient, ProductsBeyondTheRangeOfTheirDtype) {
  const Tensor x = from_data(std::vector<float>{1e-30f, 2e-30f});
  EXPECT_EQ(prod(x).item<float>(), 0.0f);
  EXPECT_EQ(prod_backward(ones({}), x).to_vector<float>(), (std::vector<float>{2e-30f, 1e-30f}));
}

TEST(ReductionGradient, VarianceWithCorrection) {
  for (double correction : {0.0, 1.0, 1.5}) {
    const Tensor x = spread({4, 3}, 7);
    expect_gradient(
        "var_backward", [&](const Tensors& in) { return var(in[0], 0, correction); },
        [&](const Tensor& g, const Tensors& in) {
          return Tensors{var_backward(g, in[0], 0, correction)};
        },
        {x});
    expect_gradient(
        "std_backward", [&](const Tensors& in) { return std(in[0], 1, correction); },
        [&](const Tensor& g, const Tensors& in) {
          return Tensors{std_backward(g, in[0], 1, correction)};
        },
        {x});
  }
  // All elements equal: the deviation's gradient is finite.
  EXPECT_TRUE(all(isfinite(std_backward(ones({}), ones({4})))).item<bool>());
}

TEST(ReductionGradient, NarrowDtypesAgreeWithFloat64) {
  const std::pair<DType, double> narrow[] = {
      {DType::float32, 1.3e-6}, {DType::float16, 1e-3}, {DType::bfloat16, 1.6e-2}};
  for (const Reduction& op : reductions()) {
    for (const auto& [dtype, tolerance] : narrow) {
      const Tensor x = draw::uniform({31, 40}, 0.8, 1.25, 9).to(dtype);
      for (const Axes& axes : {Axes(0), Axes(1)}) {
        const Tensor g = draw::uniform(op.forward(x, axes, false).shape(), 0.5, 1.5, 10).to(dtype);
        const Tensor got = op.backward(g, x, axes);
        EXPECT_EQ(got.dtype(), dtype) << op.name;
        const auto exact = op.backward(g.to(DType::float64), x.to(DType::float64), axes);
        const auto values = values_of(got), expected = values_of(exact);
        // Deviations from a mean cancel, so errors are relative to the largest element of a
        // gradient.
        const double largest = number(max_reduce(abs(exact)));
        const bool deviates = std::string(op.name) == "var" || std::string(op.name) == "std";
        for (std::size_t i = 0; i < values.size(); ++i) {
          const double scale = deviates ? largest : std::fabs(expected[i]);
          EXPECT_NEAR(values[i], expected[i], tolerance * scale) << op.name << " " << name(dtype);
        }
      }
    }
  }
}

TEST(ReductionGradient, WrongShapesOfGradOutputAreRefused) {
  const Tensor x = spread({2, 3}, 1);
  for (const Reduction& op : reductions()) {
    for (const Shape& wrong : {Shape{3}, Shape{2, 3}, Shape{1, 2}, Shape{}, Shape{2, 1, 1}}) {
      EXPECT_THROW(op.backward(ones(wrong, DType::float64), x, 1), ShapeError) << op.name << wrong;
    }
    EXPECT_THROW(op.backward(ones({2}, DType::int32), x, 1), DTypeError) << op.name;
  }
}

}  // namespace
}  // namespace extensor
