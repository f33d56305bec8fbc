// Second derivatives: finite differences of every row's backward against its double backward.
#include "extensor/second_order.h"

#include <gtest/gtest.h>

#include "op_database/elementwise_rows.h"
#include "support/compare.h"
#include "support/draw.h"
#include "support/gradients.h"

namespace extensor {
namespace {

using gradients::expect_gradient;
using gradients::Tensors;
using layouts::Layout;
using op_database::BinaryRow;
using op_database::UnaryRow;

// ---- one input

class UnaryDoubleBackward : public ::testing::TestWithParam<UnaryRow> {};

// The gradients of g and x through backward(g, saved(x)).
Tensors chained(const UnaryRow& row, const Tensor& grad_grad_x, const Tensor& g, const Tensor& x) {
  const Tensor saved = row.saved(x);
  auto [grad_g, grad_saved] = row.double_backward(grad_grad_x, g, saved);
  return {grad_g, row.saves_result ? row.backward(grad_saved, saved) : grad_saved};
}

TEST_P(UnaryDoubleBackward, MatchesFiniteDifferences) {
  const UnaryRow& row = GetParam();
  unsigned seed = 1;
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{17}, Shape{5, 7}, Shape{2, 3, 4}}) {
    for (Layout layout : {Layout::contiguous, Layout::transposed, Layout::broadcast}) {
      if (!layouts::is_distinct(layout, shape)) continue;
      SCOPED_TRACE(testing::Message() << shape << " " << layout);
      const Shape drawn = layouts::drawn_shape(layout, shape);
      const Tensor x = layouts::with_layout(draw::inputs_of(row, drawn, ++seed), layout, shape);
      const Tensor g = draw::uniform(shape, 0.5, 1.5, ++seed);
      expect_gradient(
          row.label, [&](const Tensors& in) { return row.backward(in[0], row.saved(in[1])); },
          [&](const Tensor& gg, const Tensors& in) { return chained(row, gg, in[0], in[1]); },
          {g, x});
    }
  }
}

// More elements than a chunk, in every layout, have the same results as one element at a time.
TEST_P(UnaryDoubleBackward, ChunksAndLayoutsDoNotMatter) {
  const UnaryRow& row = GetParam();
  const Shape shape{37, 613};
  const Tensor x = draw::inputs_of(row, shape, 5);
  const Tensor g = draw::uniform(shape, -1, 1, 6), gg = draw::uniform(shape, -1, 1, 7);
  const Tensor saved = row.saved(x);
  const auto expected = row.double_backward(gg, g, saved);
  for (Layout layout : {Layout::transposed, Layout::stepped, Layout::reversed}) {
    SCOPED_TRACE(layout);
    const auto laid = [&](const Tensor& t) { return layouts::with_layout(t, layout, shape); };
    const auto got = row.double_backward(laid(gg), laid(g), laid(saved));
    EXPECT_EQ(got.first.to_vector<double>(), expected.first.to_vector<double>());
    EXPECT_EQ(got.second.to_vector<double>(), expected.second.to_vector<double>());
  }
  for (std::int64_t i = 0; i < 37; i += 9) {
    const auto part = row.double_backward(gg[i], g[i], saved[i]);
    EXPECT_EQ(part.second.to_vector<double>(), expected.second[i].to_vector<double>());
  }
}

TEST_P(UnaryDoubleBackward, NarrowDtypesKeepTheirDtypes) {
  const UnaryRow& row = GetParam();
  const Tensor x64 = draw::inputs_of(row, {300}, 8);
  for (DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
    const double tolerance = dtype == DType::float32   ? 2e-5
                             : dtype == DType::float16 ? 2e-3
                                                       : 1.6e-2;
    const Tensor saved = row.saved(x64.to(dtype));
    const Tensor g = draw::uniform({300}, 0.5, 1.5, 9).to(dtype);
    const Tensor gg = draw::uniform({300}, 0.5, 1.5, 10).to(dtype);
    const auto got = row.double_backward(gg, g, saved);
    const auto exact = row.double_backward(gg.to(float64), g.to(float64), saved.to(float64));
    for (const auto& [narrow, wide] :
         {std::pair{got.first, exact.first}, std::pair{got.second, exact.second}}) {
      EXPECT_EQ(narrow.dtype(), dtype);
      const double largest = max_reduce(abs(wide)).item<double>();
      EXPECT_LE(max_reduce(abs(narrow.to(float64) - wide)).item<double>(),
                tolerance * std::max(largest, 1e-30))
          << name(dtype);
    }
  }
}

TEST_P(UnaryDoubleBackward, RefusesWrongShapesAndDtypes) {
  const UnaryRow& row = GetParam();
  const Tensor good = full({2, 3}, (row.lo + row.hi) / 2 + 0.1, float64);
  const Tensor wrong = ones({3, 2}, float64), integers = ones({2, 3}, int64);
  EXPECT_THROW(row.double_backward(wrong, good, good), ShapeError);
  EXPECT_THROW(row.double_backward(good, wrong, good), ShapeError);
  EXPECT_THROW(row.double_backward(good, good, wrong), ShapeError);
  EXPECT_THROW(row.double_backward(integers, good, good), DTypeError);
  EXPECT_THROW(row.double_backward(good, integers, good), DTypeError);
  EXPECT_THROW(row.double_backward(good, good, integers), DTypeError);
}

INSTANTIATE_TEST_SUITE_P(Rows, UnaryDoubleBackward, ::testing::ValuesIn(op_database::unary_rows()),
                         [](const auto& info) { return info.param.label; });

// ---- two inputs

class BinaryDoubleBackward : public ::testing::TestWithParam<BinaryRow> {};

const std::pair<Shape, Shape> shape_pairs[] = {
    {{17}, {17}},        {{5, 7}, {5, 7}}, {{}, {}},         {{0}, {0}},
    {{3, 1}, {1, 4}},    {{2, 3}, {3}},    {{3}, {2, 3}},    {{}, {2, 3}},
    {{2, 1, 3}, {4, 1}}, {{1}, {9}},       {{3, 0}, {3, 1}}, {{}, {0}},
};

// backward returns two tensors: each is checked, with the gradient of the other undefined or zero.
TEST_P(BinaryDoubleBackward, MatchesFiniteDifferences) {
  const BinaryRow& row = GetParam();
  unsigned seed = 100;
  for (const auto& [a_shape, b_shape] : shape_pairs) {
    SCOPED_TRACE(testing::Message() << a_shape << b_shape);
    const auto [a, b] = draw::inputs_of(row, a_shape, b_shape, ++seed);
    const Tensor g = draw::uniform(broadcast_shapes(a_shape, b_shape), 0.5, 1.5, ++seed);
    const auto gradients_of = [&](const Tensor& gga, const Tensor& ggb, const Tensors& in) {
      DoubleGradients all = row.double_backward(gga, ggb, in[0], in[1], in[2]);
      if (!all.a.defined()) all.a = zeros_like(in[1]);
      if (!all.b.defined()) all.b = zeros_like(in[2]);
      return Tensors{all.grad_output, all.a, all.b};
    };
    expect_gradient(
        row.name + " a", [&](const Tensors& in) { return row.backward(in[0], in[1], in[2]).first; },
        [&](const Tensor& gg, const Tensors& in) { return gradients_of(gg, {}, in); }, {g, a, b});
    expect_gradient(
        row.name + " b",
        [&](const Tensors& in) { return row.backward(in[0], in[1], in[2]).second; },
        [&](const Tensor& gg, const Tensors& in) { return gradients_of({}, gg, in); }, {g, a, b});
    // Both at once: the sum of the separate results.
    expect_gradient(
        row.name + " both",
        [&](const Tensors& in) {
          const auto [grad_a, grad_b] = row.backward(in[0], in[1], in[2]);
          return sum(grad_a) + 2 * sum(grad_b);
        },
        [&](const Tensor& gg, const Tensors& in) {
          return gradients_of(full_like(in[1], gg.item<double>()),
                              full_like(in[2], 2 * gg.item<double>()), in);
        },
        {g, a, b});
  }
}

TEST_P(BinaryDoubleBackward, ChunksAndLayoutsDoNotMatter) {
  const BinaryRow& row = GetParam();
  const Shape shape{37, 613};
  const Tensor a = draw::uniform(shape, row.lo, row.hi, 5);
  const Tensor b = draw::uniform({613}, row.lo, row.hi, 6);
  const Tensor g = draw::uniform(shape, -1, 1, 7), gga = draw::uniform(shape, -1, 1, 8);
  const Tensor ggb = draw::uniform({613}, -1, 1, 9);
  const DoubleGradients expected = row.double_backward(gga, ggb, g, a, b);
  const auto laid = [&](const Tensor& t) {
    return layouts::with_layout(t, Layout::transposed, t.shape());
  };
  const DoubleGradients got =
      row.double_backward(laid(gga), layouts::with_layout(ggb, Layout::reversed, {613}), laid(g),
                          laid(a), layouts::with_layout(b, Layout::stepped, {613}));
  EXPECT_EQ(got.grad_output.to_vector<double>(), expected.grad_output.to_vector<double>());
  if (!expected.a.defined()) return;
  EXPECT_EQ(got.a.to_vector<double>(), expected.a.to_vector<double>());
  // The sum over the rows of a transposed result is rounded in another order.
  const Tensor difference = abs(got.b - expected.b);
  const double largest = max_reduce(abs(expected.b)).item<double>();
  EXPECT_LE(max_reduce(difference).item<double>(), 1e-14 * largest);
}

TEST_P(BinaryDoubleBackward, RefusesWrongShapes) {
  const BinaryRow& row = GetParam();
  const Tensor a = ones({2, 1}), b = ones({3}), g = ones({2, 3}), wrong = ones({4});
  EXPECT_THROW(row.double_backward(wrong, b, g, a, b), ShapeError);
  EXPECT_THROW(row.double_backward(g, b, g, a, b), ShapeError);
  EXPECT_THROW(row.double_backward(a, wrong, g, a, b), ShapeError);
  EXPECT_THROW(row.double_backward(a, b, g, a, ones({2, 4})), ShapeError);
  EXPECT_THROW(row.double_backward(ones({2, 1}, int64), b, g, a, b), DTypeError);
}

INSTANTIATE_TEST_SUITE_P(Rows, BinaryDoubleBackward,
                         ::testing::ValuesIn(op_database::binary_rows()),
                         [](const auto& info) { return info.param.name; });

// ---- functions that are not rows

TEST(DoubleBackward, KnownSecondDerivatives) {
  const Tensor x = tensor({0.5, 1.0, 2.0}, float64), one = ones({3}, float64);
  // (x³)'' = 6x, through power.
  const Tensor three = full({3}, 3.0, float64);
  const Tensor second = power_double_backward(one, {}, one, x, three).a;
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(second[i].item<double>(), 6 * x[i].item<double>(), 1e-14);
  }
  // sin'' = −sin; relu'' = 0 exactly.
  const auto of_sin = sin_double_backward(one, one, x).second.to_vector<double>();
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(of_sin[i], -std::sin(x[static_cast<std::int64_t>(i)].item<double>()), 1e-15);
  }
  EXPECT_EQ(relu_double_backward(one, one, x).second.to_vector<double>(),
            (std::vector<double>{0, 0, 0}));
}

TEST(DoubleBackward, SingularitiesStayFinite) {
  const Tensor zero = zeros({4}), one = ones({4});
  EXPECT_TRUE(all(isfinite(log_double_backward(one, one, zero).second)).item<bool>());
  EXPECT_TRUE(all(isfinite(sqrt_double_backward(one, one, zero).second)).item<bool>());
  const DoubleGradients divided = divide_double_backward(one, one, one, one, zero);
  EXPECT_TRUE(all(isfinite(divided.b)).item<bool>());
  // eps = 0 selects IEEE behavior in every order.
  const Tensor tiny = full({4}, 1e-12, float64), one64 = ones({4}, float64);
  EXPECT_NEAR(log_double_backward(one64, one64, tiny, 0).second[0].item<double>() / -1e24, 1, 1e-9);
  EXPECT_THROW(log_double_backward(one, one, zero, -1), ValueError);
  EXPECT_THROW(divide_double_backward(one, one, one, one, one, -1), ValueError);
}

TEST(DoubleBackward, GeluApproximateAndFma) {
  for (bool approximate : {false, true}) {
    expect_gradient(
        "gelu_double_backward",
        [&](const Tensors& in) { return gelu_backward(in[0], in[1], approximate); },
        [&](const Tensor& gg, const Tensors& in) {
          auto [grad_g, grad_x] = gelu_double_backward(gg, in[0], in[1], approximate);
          return Tensors{grad_g, grad_x};
        },
        {draw::uniform({9}, 0.5, 1.5, 1), draw::uniform({9}, -4, 4, 2)});
  }
  const std::vector<std::vector<Shape>> shapes = {
      {{9}, {9}, {9}, {9}}, {{2, 3}, {3}, {}, {2, 3}}, {{3, 1}, {4}, {2, 3, 4}, {2, 3, 4}}};
  for (const auto& shape : shapes) {
    expect_gradient(
        "fma_double_backward",
        [&](const Tensors& in) {
          const FmaGradients all = fma_backward(in[0], in[1], in[2], shape[2]);
          return sum(all.a) + 2 * sum(all.b) + 3 * sum(all.c);
        },
        [&](const Tensor& gg, const Tensors& in) {
          const double w = gg.item<double>();
          const DoubleGradients all =
              fma_double_backward(full_like(in[1], w), full_like(in[2], 2 * w),
                                  full(shape[2], 3 * w, float64), in[0], in[1], in[2]);
          return Tensors{all.grad_output, all.a, all.b};
        },
        {draw::uniform(shape[3], -2, 2, 4), draw::uniform(shape[0], -2, 2, 1),
         draw::uniform(shape[1], -2, 2, 2)});
  }
  EXPECT_THROW(add_double_backward({}, {}, {2}, {2}), ValueError);
}

TEST(DoubleBackward, DoesNotDependOnTheNumberOfThreads) {
  const Tensor x = draw::uniform({50000}, -4, 4, 1), g = draw::uniform({50000}, -1, 1, 2);
  const int before = get_num_threads();
  set_num_threads(1);
  const auto one = mish_double_backward(g, g, x).second.to_vector<double>();
  set_num_threads(4);
  EXPECT_EQ(mish_double_backward(g, g, x).second.to_vector<double>(), one);
  set_num_threads(before);
}

const auto* const counter = ::testing::AddGlobalTestEnvironment(new gradients::Counter);

}  // namespace
}  // namespace extensor
