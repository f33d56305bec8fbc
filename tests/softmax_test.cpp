// The softmax family: values against long double on every axis, the far tails, gradients, and
// identical bits for any number of threads.
#include "extensor/softmax.h"

#include <gtest/gtest.h>

#include "support/family_test.h"

namespace extensor {
namespace {

using namespace family_test;

// Numbers between −4 and 4.
Tensor logits(const Shape& shape, Layout layout, unsigned seed, DType dtype = DType::float64) {
  return laid_out(shape, layout, seed, dtype, 4);
}

// log Σ exp over `axis` of x in long double, with that axis kept.
std::vector<long double> exact_logsumexp(const Tensor& x, std::int64_t axis) {
  std::int64_t inner = 1;
  for (std::int64_t d = axis + 1; d < x.ndim(); ++d) inner *= x.size(d);
  const std::int64_t length = x.size(axis);
  const auto values = values_of(x);
  std::vector<long double> result(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const std::int64_t first = at / (inner * length) * inner * length + at % inner;
    long double sum = 0;
    for (std::int64_t j = 0; j < length; ++j) {
      sum +=
          std::exp(static_cast<long double>(values[static_cast<std::size_t>(first + j * inner)]));
    }
    result[i] = std::log(sum);
  }
  return result;
}

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> list = {{1},     {3},     {8},       {17},      {33},
                                          {100},   {5, 7},  {17, 3},   {2, 3, 4}, {3, 1, 9},
                                          {4, 33}, {65, 2}, {2, 33, 5}};
  return list;
}

TEST(Softmax, ValuesOnEveryAxisInEveryLayout) {
  for (DType dtype : float_dtypes) {
    for (const Shape& shape : shapes()) {
      for (Layout layout : layouts::every_layout) {
        if (!layouts::is_distinct(layout, shape)) continue;
        const Tensor x = logits(shape, layout, 1, dtype);
        for (std::int64_t axis = 0; axis < x.ndim(); ++axis) {
          SCOPED_TRACE(testing::Message()
                       << name(dtype) << " " << layout << shape << " axis " << axis);
          const auto inputs = values_of(x);
          const auto totals = exact_logsumexp(x, axis);
          const Tensor y = softmax(x, axis), logs = log_softmax(x, axis - x.ndim());
          EXPECT_EQ(y.dtype(), dtype);
          const auto probabilities = values_of(y), logarithms = values_of(logs);
          const auto sums = values_of(logsumexp(x, axis, true).broadcast_to(shape));
          // Halves are one rounding away from float32.
          const double compute = 8 * spacing(is_half(dtype) ? DType::float32 : dtype);
          const double rounding = is_half(dtype) ? spacing(dtype) / 2 : 0;
          for (std::size_t i = 0; i < inputs.size(); ++i) {
            const long double log_probability = inputs[i] - totals[i];
            const long double probability = std::exp(log_probability);
            EXPECT_LE(std::fabs(probabilities[i] - probability),
                      (compute + rounding) * probability + 0x1p-25L * (dtype == DType::float16));
            EXPECT_LE(std::fabs(logarithms[i] - log_probability),
                      compute * 4 + rounding * std::fabs(log_probability));
            EXPECT_LE(std::fabs(sums[i] - totals[i]),
                      compute * 4 + rounding * std::fabs(totals[i]));
          }
        }
      }
    }
  }
}

TEST(Softmax, LogsumexpOverSeveralAxes) {
  const Tensor x = logits({3, 4, 5}, Layout::transposed, 2);
  for (const Axes& axes : {Axes(), Axes({0, 2}), Axes({1, -1}), Axes({0, 1, 2})}) {
    const Tensor expected = log(sum(exp(x), axes));
    EXPECT_TRUE(allclose(logsumexp(x, axes), expected, 1e-14));
    EXPECT_EQ(logsumexp(x, axes).shape(), expected.shape());
  }
  EXPECT_EQ(logsumexp(full({}, 3, DType::float64)).item<double>(), 3);
}

TEST(Softmax, NothingOverflows) {
  for (DType dtype : float_dtypes) {
    const double large = dtype == DType::float16 ? 60000 : 1e30;
    const Tensor x = vector_of({large, large, -large}, dtype);
    EXPECT_EQ(values_of(softmax(x)), (std::vector<double>{0.5, 0.5, 0}));
    EXPECT_TRUE(std::isfinite(values_of(log_softmax(x))[0]));
    EXPECT_EQ(values_of(logsumexp(x))[0], values_of(x)[0]);
    const Tensor tail = vector_of({0, -80, -200}, dtype);
    EXPECT_EQ(values_of(log_softmax(tail)), values_of(tail));
  }
  // The lower tail keeps its relative accuracy.
  const auto y = values_of(softmax(vector_of({0, -80}, DType::float32)));
  EXPECT_NEAR(y[1] / std::exp(-80.0), 1, 1e-6);
  EXPECT_NEAR(values_of(logsumexp(vector_of({-1000, -1000})))[0], -1000 + std::log(2.0), 1e-12);
}

TEST(Softmax, SpecialRows) {
  EXPECT_EQ(logsumexp(zeros({0})).item<float>(), -infinity);
  EXPECT_EQ(values_of(logsumexp(vector_of({-infinity, -infinity})))[0], -infinity);
  EXPECT_EQ(values_of(logsumexp(vector_of({-infinity, 2})))[0], 2);
  EXPECT_EQ(values_of(logsumexp(vector_of({infinity, 2})))[0], infinity);
  EXPECT_EQ(values_of(softmax(vector_of({-infinity, 0, 0}))), (std::vector<double>{0, 0.5, 0.5}));
  for (const Tensor& row : {vector_of({-infinity, -infinity}), vector_of({not_a_number, 1})}) {
    for (double value : values_of(softmax(row))) EXPECT_TRUE(std::isnan(value));
  }
  EXPECT_EQ(softmax(zeros({0})).shape(), Shape{0});
  EXPECT_EQ(softmax(zeros({3, 0})).shape(), (Shape{3, 0}));
  EXPECT_EQ(softmax(zeros({0, 3}), 0).shape(), (Shape{0, 3}));
  EXPECT_EQ(softmax(full({}, 7.0)).item<float>(), 1);
  EXPECT_EQ(log_softmax(full({}, 7.0)).item<float>(), 0);
  EXPECT_EQ(softmax(tensor({1, 2, 3})).dtype(), DType::float32);
  using Function = Tensor (*)(const Tensor&, StrictInt);
  for (const Function function : {Function(softmax), Function(log_softmax)}) {
    EXPECT_THROW(function(zeros({2, 3}), 2), IndexError);
    EXPECT_THROW(function(zeros({2, 3}), -3), IndexError);
  }
}

TEST(Softmax, TheSameBitsForAnyNumberOfThreads) {
  const int before = get_num_threads();
  for (DType dtype : float_dtypes) {
    for (Layout layout : {Layout::contiguous, Layout::transposed}) {
      const Tensor x = logits({300, 411}, layout, 1, dtype);
      const Tensor g = logits({300, 411}, layout, 2, dtype);
      for (std::int64_t axis : {0, 1}) {
        const auto run = [&] {
          return Tensors{softmax(x, axis),
                         log_softmax(x, axis),
                         logsumexp(x, axis),
                         softmax_backward(g, x, axis),
                         log_softmax_backward(g, x, axis),
                         logsumexp(x)};
        };
        set_num_threads(1);
        const Tensors expected = run();
        for (int threads : {2, 4}) {
          set_num_threads(threads);
          const Tensors got = run();
          for (std::size_t i = 0; i < got.size(); ++i) {
            EXPECT_TRUE(identical(got[i], expected[i])) << name(dtype) << " " << layout << " " << i;
          }
        }
      }
    }
  }
  set_num_threads(before);
}

// ---- gradients

TEST(SoftmaxGradient, OnEveryAxisInEveryLayout) {
  std::vector<Shape> all = shapes();
  all.insert(all.end(), {{0}, {3, 0}, {0, 3}});
  for (const Shape& shape : all) {
    if (layouts::element_count(shape) > 120) continue;
    for (Layout layout : layouts::every_layout) {
      if (!layouts::is_distinct(layout, shape)) continue;
      const Tensor x = logits(shape, layout, 3);
      for (std::int64_t axis = -1; axis < x.ndim(); ++axis) {
        SCOPED_TRACE(testing::Message() << layout << shape << " axis " << axis);
        expect_gradient(
            "softmax_backward", [&](const Tensors& in) { return softmax(in[0], axis); },
            [&](const Tensor& g, const Tensors& in) {
              return Tensors{softmax_backward(g, softmax(in[0], axis), axis)};
            },
            {x});
        expect_gradient(
            "log_softmax_backward", [&](const Tensors& in) { return log_softmax(in[0], axis); },
            [&](const Tensor& g, const Tensors& in) {
              return Tensors{log_softmax_backward(g, log_softmax(in[0], axis), axis)};
            },
            {x});
        for (bool keepdims : {false, true}) {
          if (x.size(axis) == 0) continue;
          expect_gradient(
              "logsumexp_backward",
              [&](const Tensors& in) { return logsumexp(in[0], axis, keepdims); },
              [&](const Tensor& g, const Tensors& in) {
                return Tensors{logsumexp_backward(g, in[0], axis)};
              },
              {x});
        }
      }
    }
  }
}

TEST(SoftmaxGradient, ZeroDimensionalAndSeveralAxes) {
  const Tensor one = full({}, 0.7, DType::float64), x = logits({2, 3, 4}, Layout::reversed, 4);
  expect_gradient(
      "softmax_backward", [](const Tensors& in) { return softmax(in[0]); },
      [](const Tensor& g, const Tensors& in) {
        return Tensors{softmax_backward(g, softmax(in[0]))};
      },
      {one});
  for (const Axes& axes : {Axes(), Axes({0, 2}), Axes({-1, 1})}) {
    expect_gradient(
        "logsumexp_backward", [&](const Tensors& in) { return logsumexp(in[0], axes); },
        [&](const Tensor& g, const Tensors& in) {
          return Tensors{logsumexp_backward(g, in[0], axes)};
        },
        {x});
  }
  EXPECT_EQ(
      values_of(logsumexp_backward(ones({}, DType::float64), vector_of({-infinity, -infinity}))),
      (std::vector<double>{0, 0}));
}

TEST(SoftmaxGradient, NarrowDtypesAgreeWithFloat64) {
  const std::pair<DType, double> narrow[] = {
      {DType::float32, 1.3e-6}, {DType::float16, 1e-3}, {DType::bfloat16, 1.6e-2}};
  for (const auto& [dtype, tolerance] : narrow) {
    for (std::int64_t axis : {0, 1}) {
      const Tensor x = logits({40, 61}, Layout::contiguous, 1, dtype);
      const Tensor g = draw::uniform({40, 61}, -1, 1, 2).to(dtype);
      const auto wide = [](const Tensor& t) { return t.to(DType::float64); };
      const Tensor y = softmax(x, axis), logs = log_softmax(x, axis);
      const Tensor total = draw::uniform(logsumexp(x, axis).shape(), 0.5, 1.5, 3).to(dtype);
      const std::pair<Tensor, Tensor> pairs[] = {
          {softmax_backward(g, y, axis), softmax_backward(wide(g), wide(y), axis)},
          {log_softmax_backward(g, logs, axis), log_softmax_backward(wide(g), wide(logs), axis)},
          {logsumexp_backward(total, x, axis), logsumexp_backward(wide(total), wide(x), axis)}};
      for (const auto& [got, reference] : pairs) {
        EXPECT_EQ(got.dtype(), dtype);
        // g − Σ g·y cancels: relative to the largest of the gradients.
        const double largest = max_reduce(abs(reference)).item<double>();
        EXPECT_LE(max_reduce(abs(wide(got) - reference)).item<double>(), tolerance * largest)
            << name(dtype) << " axis " << axis;
      }
    }
  }
}

TEST(SoftmaxGradient, WrongShapesOfGradOutputAreRefused) {
  const Tensor x = ones({2, 3});
  for (const Shape& wrong : {Shape{3, 2}, Shape{3}, Shape{2}, Shape{}, Shape{1, 2, 3}}) {
    EXPECT_THROW(softmax_backward(ones(wrong), x), ShapeError) << wrong;
    EXPECT_THROW(log_softmax_backward(ones(wrong), x), ShapeError) << wrong;
  }
  for (const Shape& wrong : {Shape{3, 2}, Shape{3}, Shape{1, 2}, Shape{}, Shape{2, 3}}) {
    EXPECT_THROW(logsumexp_backward(ones(wrong), x, 1), ShapeError) << wrong;
  }
  EXPECT_THROW(softmax_backward(ones({2, 3}, DType::int64), x), DTypeError);
  EXPECT_THROW(softmax_backward(ones({2, 3}), x, 2), IndexError);
}

}  // namespace
}  // namespace extensor
