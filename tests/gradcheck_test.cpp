// Every explicit backward of the op tables against finite differences, in every layout and around
// every vector length, and in the narrow dtypes against float64.
#include <gtest/gtest.h>

#include <map>

#include "op_database/elementwise_rows.h"
#include "support/draw.h"
#include "support/gradients.h"
#include "support/layouts.h"

namespace extensor {
namespace {

using gradients::expect_gradient;
using gradients::Tensors;
using layouts::Layout;
using op_database::BinaryRow;
using op_database::UnaryRow;

const auto* const counter = ::testing::AddGlobalTestEnvironment(new gradients::Counter);

// ---- rows of one tensor

class UnaryGradient : public ::testing::TestWithParam<UnaryRow> {};

TEST_P(UnaryGradient, MatchesFiniteDifferences) {
  const UnaryRow& row = GetParam();
  const auto forward = [&](const Tensors& in) { return row.forward(in[0]); };
  const auto backward = [&](const Tensor& g, const Tensors& in) {
    return Tensors{row.backward(g, row.saved(in[0]))};
  };
  unsigned seed = 1;
  for (const Shape& shape : layouts::gradient_shapes()) {
    for (Layout layout : layouts::every_layout) {
      if (!layouts::is_distinct(layout, shape)) continue;
      SCOPED_TRACE(testing::Message() << layout << " " << shape);
      const Tensor drawn = draw::inputs_of(row, layouts::drawn_shape(layout, shape), ++seed);
      expect_gradient(row.label, forward, backward, {layouts::with_layout(drawn, layout, shape)});
    }
  }
}

// An incoming gradient in any layout has the same result as a dense one.
TEST_P(UnaryGradient, ReadsAnyLayoutOfGradOutput) {
  const UnaryRow& row = GetParam();
  for (const Shape& shape : {Shape{5, 7}, Shape{2, 3, 4}, Shape{33}}) {
    const Tensor x = draw::inputs_of(row, shape, 5);
    for (Layout layout : layouts::every_layout) {
      SCOPED_TRACE(testing::Message() << layout << " " << shape);
      const Tensor g = layouts::with_layout(
          draw::uniform(layouts::drawn_shape(layout, shape), -2, 2, 6), layout, shape);
      const Tensor saved = row.saved(x);
      EXPECT_EQ(row.backward(g, layouts::with_layout(saved, Layout::transposed, shape))
                    .to_vector<double>(),
                row.backward(g.clone(), saved).to_vector<double>());
    }
  }
}

// ---- rows of two tensors

class BinaryGradient : public ::testing::TestWithParam<BinaryRow> {};

void check_binary(const BinaryRow& row, const Shape& a_shape, Layout a_layout, const Shape& b_shape,
                  Layout b_layout, unsigned seed) {
  SCOPED_TRACE(testing::Message() << a_layout << " " << a_shape << " with " << b_layout << " "
                                  << b_shape);
  const auto [a, b] = draw::inputs_of(row, layouts::drawn_shape(a_layout, a_shape),
                                      layouts::drawn_shape(b_layout, b_shape), seed);
  expect_gradient(
      row.name, [&](const Tensors& in) { return row.forward(in[0], in[1]); },
      [&](const Tensor& g, const Tensors& in) {
        auto [grad_a, grad_b] = row.backward(g, in[0], in[1]);
        return Tensors{grad_a, grad_b};
      },
      {layouts::with_layout(a, a_layout, a_shape), layouts::with_layout(b, b_layout, b_shape)});
}

TEST_P(BinaryGradient, MatchesFiniteDifferences) {
  unsigned seed = 1;
  for (const Shape& shape : layouts::gradient_shapes()) {
    for (Layout a_layout : layouts::every_layout) {
      for (Layout b_layout : layouts::every_layout) {
        if (!layouts::is_distinct(a_layout, shape) || !layouts::is_distinct(b_layout, shape)) {
          continue;
        }
        // Every pair of layouts on matrices; otherwise only pairs in which one operand is dense or
        // both have the same layout.
        const bool usual = a_layout == b_layout || a_layout == Layout::contiguous ||
                           b_layout == Layout::contiguous;
        if (!usual && !(shape == Shape{5, 7})) continue;
        check_binary(GetParam(), shape, a_layout, shape, b_layout, ++seed);
      }
    }
  }
}

TEST_P(BinaryGradient, MatchesFiniteDifferencesWhenShapesBroadcast) {
  const std::pair<Shape, Shape> pairs[] = {
      {{3, 1}, {1, 4}}, {{2, 3}, {3}},       {{3}, {2, 3}},    {{}, {2, 3}},
      {{2, 3}, {}},     {{1}, {9}},          {{17}, {1}},      {{2, 1, 3}, {4, 1}},
      {{1, 1}, {3}},    {{2, 3, 4}, {1, 4}}, {{5}, {3, 1, 1}}, {{0}, {1}},
      {{3, 0}, {3, 1}}, {{1, 0}, {4, 1}},    {{}, {0}},        {{}, {}},
  };
  unsigned seed = 100;
  for (const auto& [a_shape, b_shape] : pairs) {
    for (Layout layout : layouts::every_layout) {
      if (layout != Layout::contiguous && !layouts::is_distinct(layout, a_shape) &&
          !layouts::is_distinct(layout, b_shape)) {
        continue;
      }
      check_binary(GetParam(), a_shape, layout, b_shape, layout, ++seed);
    }
  }
}

// ---- the narrow dtypes against float64

struct Narrow {
  DType dtype;
  double tolerance;  // the relative error that the dtype is allowed
  double smallest;   // the least normal number: below it the spacing is absolute
};
constexpr Narrow narrow_dtypes[] = {{DType::float32, 1.3e-6, 0x1p-126},
                                    {DType::float16, 1e-3, 0x1p-14},
                                    {DType::bfloat16, 1.6e-2, 0x1p-126}};

// The largest difference, relative to the reference element by element. `floor` is the magnitude
// below which it is relative to `floor`.
double worst_relative_error(const Tensor& got, const Tensor& reference, double floor) {
  EXPECT_EQ(got.shape(), reference.shape());
  const auto values = got.to(DType::float64).to_vector<double>();
  const auto exact = reference.to_vector<double>();
  double worst = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double error = std::fabs(values[i] - exact[i]) / std::max(std::fabs(exact[i]), floor);
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

// Where the derivative of a row crosses 0 because two of its terms cancel. Near that point no
// formula in the same precision has a small relative error, and errors are relative to 1/16 of the
// largest gradient instead. NaN if there is no such point.
double zero_of_derivative(const std::string& name) {
  static const std::map<std::string, double> zeros = {
      {"gelu", -0.7518}, {"gelu_tanh", -0.7525}, {"silu", -1.2785}, {"mish", -1.1924}};
  const auto found = zeros.find(name);
  return found == zeros.end() ? NAN : found->second;
}

double largest(const Tensor& x) { return max_reduce(abs(x)).item<double>(); }

TEST_P(UnaryGradient, NarrowDtypesAgreeWithFloat64) {
  const UnaryRow& row = GetParam();
  const Shape shape{2003};
  const Tensor drawn = draw::inputs_of(row, shape, 77);
  const Tensor near_zero = less(abs(drawn - zero_of_derivative(row.name)), 0.5);
  for (const Narrow& narrow : narrow_dtypes) {
    SCOPED_TRACE(name(narrow.dtype));
    // Rounded first, so that both read the same numbers.
    const Tensor saved = row.saved(drawn.to(narrow.dtype));
    const Tensor g = draw::uniform(shape, 0.5, 1.5, 78).to(narrow.dtype);
    const Tensor got = row.backward(g, saved);
    EXPECT_EQ(got.dtype(), narrow.dtype);
    const Tensor reference = row.backward(g.to(DType::float64), saved.to(DType::float64));
    const Tensor nothing = zeros({}, DType::float64);
    for (const auto& [part, floor] :
         {std::pair{logical_not(near_zero), narrow.smallest},
          std::pair{near_zero, std::max(narrow.smallest, largest(reference) / 16)}}) {
      EXPECT_LE(
          worst_relative_error(where(part, got, nothing), where(part, reference, nothing), floor),
          narrow.tolerance);
    }
  }
}

TEST_P(BinaryGradient, NarrowDtypesAgreeWithFloat64) {
  const BinaryRow& row = GetParam();
  // The second pair sums 600 gradients into each element of a.
  const std::pair<Shape, Shape> pairs[] = {{{1000}, {1000}}, {{7, 1}, {600}}};
  for (const auto& [a_shape, b_shape] : pairs) {
    const Tensor a64 = draw::uniform(a_shape, row.lo, row.hi, 79);
    const Tensor b64 = draw::uniform(b_shape, row.lo, row.hi, 80);
    const Tensor g64 = draw::uniform(broadcast_shapes(a_shape, b_shape), 0.5, 1.5, 81);
    for (const Narrow& narrow : narrow_dtypes) {
      SCOPED_TRACE(testing::Message() << name(narrow.dtype) << " " << a_shape << b_shape);
      const Tensor a = a64.to(narrow.dtype), b = b64.to(narrow.dtype), g = g64.to(narrow.dtype);
      const auto got = row.backward(g, a, b);
      const auto reference =
          row.backward(g.to(DType::float64), a.to(DType::float64), b.to(DType::float64));
      EXPECT_EQ(got.first.dtype(), narrow.dtype);
      EXPECT_EQ(got.second.dtype(), narrow.dtype);
      const bool sums = !(a_shape == b_shape);
      for (const auto& [narrow_gradient, exact] :
           {std::pair{got.first, reference.first}, std::pair{got.second, reference.second}}) {
        // The error of a sum of terms of both signs is relative to the terms.
        const double floor = std::max(narrow.smallest, sums ? largest(exact) : 0);
        EXPECT_LE(worst_relative_error(narrow_gradient, exact, floor), narrow.tolerance);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, UnaryGradient, ::testing::ValuesIn(op_database::unary_rows()),
                         [](const auto& info) { return info.param.label; });
INSTANTIATE_TEST_SUITE_P(Rows, BinaryGradient, ::testing::ValuesIn(op_database::binary_rows()),
                         [](const auto& info) { return info.param.name; });

// ---- functions that are not rows

TEST(Gradient, GeluApproximate) {
  for (bool approximate : {false, true}) {
    expect_gradient(
        "gelu_backward", [&](const Tensors& in) { return gelu(in[0], approximate); },
        [&](const Tensor& g, const Tensors& in) {
          return Tensors{gelu_backward(g, in[0], approximate)};
        },
        {draw::uniform({5, 7}, -5, 5, 3)});
  }
}

TEST(Gradient, Fma) {
  const std::vector<std::vector<Shape>> shapes = {
      {{9}, {9}, {9}}, {{2, 3}, {3}, {}}, {{3, 1}, {4}, {2, 3, 4}},
      {{0}, {1}, {0}}, {{}, {}, {}},      {{}, {2, 3}, {3}}};
  for (const auto& shape : shapes) {
    expect_gradient(
        "fma_backward", [](const Tensors& in) { return fma(in[0], in[1], in[2]); },
        [](const Tensor& g, const Tensors& in) {
          const FmaGradients gradients = fma_backward(g, in[0], in[1], in[2].shape());
          return Tensors{gradients.a, gradients.b, gradients.c};
        },
        {draw::uniform(shape[0], -2, 2, 1), draw::uniform(shape[1], -2, 2, 2),
         draw::uniform(shape[2], -2, 2, 3)});
  }
}

TEST(Gradient, FmaInNarrowDtypes) {
  const Tensor a64 = draw::uniform({7, 1}, -2, 2, 1), b64 = draw::uniform({600}, -2, 2, 2);
  const Tensor g64 = draw::uniform({7, 600}, 0.5, 1.5, 3);
  for (const Narrow& narrow : narrow_dtypes) {
    SCOPED_TRACE(name(narrow.dtype));
    const Tensor a = a64.to(narrow.dtype), b = b64.to(narrow.dtype), g = g64.to(narrow.dtype);
    const FmaGradients got = fma_backward(g, a, b, {600});
    const FmaGradients exact =
        fma_backward(g.to(DType::float64), a.to(DType::float64), b.to(DType::float64), {600});
    for (const auto& [gradient, reference] :
         {std::pair{got.a, exact.a}, std::pair{got.b, exact.b}, std::pair{got.c, exact.c}}) {
      EXPECT_EQ(gradient.dtype(), narrow.dtype);
      EXPECT_LE(worst_relative_error(gradient, reference, largest(reference)), narrow.tolerance);
    }
  }
  const FmaGradients mixed = fma_backward(g64, a64.to(DType::float16), b64, {600});
  EXPECT_EQ(mixed.a.dtype(), DType::float16);
  EXPECT_EQ(mixed.b.dtype(), DType::float64);
}

TEST(Gradient, Where) {
  const Tensor condition = greater(draw::uniform({3, 4}, -1, 1, 9), 0);
  const std::pair<Shape, Shape> pairs[] = {
      {{3, 4}, {3, 4}}, {{4}, {3, 1}}, {{}, {3, 4}}, {{2, 3, 4}, {4}}, {{2, 1, 1}, {}}};
  for (const auto& [a_shape, b_shape] : pairs) {
    for (Layout layout : {Layout::contiguous, Layout::transposed, Layout::stepped}) {
      const Tensor laid_out = layouts::with_layout(condition, layout, condition.shape());
      expect_gradient(
          "where_backward", [&](const Tensors& in) { return where(laid_out, in[0], in[1]); },
          [&](const Tensor& g, const Tensors& in) {
            auto [grad_a, grad_b] = where_backward(g, laid_out, in[0].shape(), in[1].shape());
            return Tensors{grad_a, grad_b};
          },
          {draw::uniform(a_shape, -2, 2, 1), draw::uniform(b_shape, -2, 2, 2)});
    }
  }
}

TEST(Gradient, Broadcast) {
  const std::pair<Shape, Shape> pairs[] = {{{3, 1}, {3, 4}}, {{}, {2, 3}},     {{4}, {2, 3, 4}},
                                           {{1}, {0}},       {{1, 1}, {5, 7}}, {{2, 3}, {2, 3}}};
  for (const auto& pair : pairs) {
    expect_gradient(
        "reduce_broadcast_dims",
        [&](const Tensors& in) { return broadcast_to(in[0], pair.second); },
        [](const Tensor& g, const Tensors& in) {
          return Tensors{reduce_broadcast_dims(g, in[0].shape())};
        },
        {draw::uniform(pair.first, -2, 2, 1)});
  }
}

TEST(Gradient, ChangesOfShape) {
  for (Layout layout : layouts::every_layout) {
    SCOPED_TRACE(layout);
    for (const Shape& shape : {Shape{2, 1, 6}, Shape{3, 1, 0}, Shape{1, 4, 3}, Shape{2, 6, 1}}) {
      if (!layouts::is_distinct(layout, shape)) continue;
      const Tensor x = layouts::with_layout(
          draw::uniform(layouts::drawn_shape(layout, shape), -2, 2, 1), layout, shape);
      const Shape other{layouts::element_count(shape) == 0 ? 0 : 4, 3};
      expect_gradient(
          "reshape_backward", [&](const Tensors& in) { return reshape(in[0], other); },
          [](const Tensor& g, const Tensors& in) {
            return Tensors{reshape_backward(g, in[0].shape())};
          },
          {x});
      expect_gradient(
          "squeeze_backward", [](const Tensors& in) { return squeeze(in[0]); },
          [](const Tensor& g, const Tensors& in) {
            return Tensors{squeeze_backward(g, in[0].shape())};
          },
          {x});
      expect_gradient(
          "flatten_backward", [](const Tensors& in) { return flatten(in[0]); },
          [](const Tensor& g, const Tensors& in) {
            return Tensors{flatten_backward(g, in[0].shape())};
          },
          {x});
      for (std::int64_t axis : {0, 2, 3, -1, -4}) {
        expect_gradient(
            "unsqueeze_backward", [&](const Tensors& in) { return unsqueeze(in[0], axis); },
            [&](const Tensor& g, const Tensors&) { return Tensors{unsqueeze_backward(g, axis)}; },
            {x});
      }
    }
  }
}

// Functions that are not generated from the tables; the tests of each family have the rest.
TEST(Gradient, WrongShapesOfGradOutputAreRefused) {
  const Tensor a = ones({2, 1}), b = ones({3}), condition = ones({2, 3}, DType::bool_);
  for (const Shape& wrong : {Shape{3, 2}, Shape{2, 1}, Shape{3}, Shape{}, Shape{6}}) {
    EXPECT_THROW(fma_backward(ones(wrong), a, b, {}), ShapeError) << wrong;
    EXPECT_THROW(where_backward(ones(wrong), condition, {3}, {}), ShapeError) << wrong;
    EXPECT_THROW(gelu_backward(ones(wrong), ones({2, 3}), true), ShapeError) << wrong;
  }
  EXPECT_THROW(reduce_broadcast_dims(ones({2, 3}), {2}), ShapeError);
  EXPECT_THROW(reduce_broadcast_dims(ones({3}), {2, 3}), ShapeError);
  EXPECT_THROW(reshape_backward(ones({5}), {2, 3}), ShapeError);
  for (const Shape& wrong : {Shape{3, 2}, Shape{6}, Shape{2, 1, 1, 3}, Shape{2}}) {
    EXPECT_THROW(squeeze_backward(ones(wrong), {2, 1, 3}), ShapeError) << wrong;
  }
  for (const Shape& wrong : {Shape{3, 2}, Shape{5}, Shape{1, 6}, Shape{}}) {
    EXPECT_THROW(flatten_backward(ones(wrong), {2, 3}), ShapeError) << wrong;
  }
  EXPECT_THROW(unsqueeze_backward(ones({2, 3}), 0), Error);
  EXPECT_THROW(unsqueeze_backward(ones({2, 1}), 2), Error);
}

}  // namespace
}  // namespace extensor
