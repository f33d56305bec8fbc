// User-defined ops: formulas with gradients by dual numbers, and custom functions.
#include "extensor/user_ops.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <stdexcept>

#include "extensor/extensor.h"
#include "support/draw.h"
#include "support/gradients.h"

namespace extensor {
namespace {

using gradients::Tensors;
using layouts::Layout;

// ---- formulas

const auto swish = elementwise("swish", [](auto x) { return x * sigmoid(x); });
const auto rotate = elementwise("rotate", [](auto x, auto y) { return x * cos(y) - sin(x * y); });
const auto blend =
    elementwise("blend", [](auto t, auto a, auto b) { return a + (b - a) * sigmoid(t); });
const auto four = elementwise(
    "four", [](auto a, auto b, auto c, auto d) { return exp(a) * b / (1 + c * c) - d * a; });

TEST(UserOp, ComputesItsFormula) {
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{17}, Shape{5, 7}, Shape{50000}}) {
    const Tensor x = draw::uniform(shape, -5, 5, 1);
    const Tensor y = swish(x);
    EXPECT_EQ(y.shape(), shape);
    EXPECT_EQ(y.dtype(), float64);
    const auto from = x.to_vector<double>(), got = y.to_vector<double>();
    for (std::size_t i = 0; i < from.size(); ++i) {
      EXPECT_NEAR(got[i], from[i] / (1 + std::exp(-from[i])), 1e-14);
    }
  }
}

TEST(UserOp, GradientIsThatOfTheRow) {
  const Tensor x = draw::uniform({20000}, -5, 5, 1), g = draw::uniform({20000}, -1, 1, 2);
  const auto got = swish.backward(g, x).to_vector<double>();
  const auto expected = silu_backward(g, x).to_vector<double>();
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-14);
}

TEST(UserOp, OneToFourInputsPassTheGradientCheck) {
  const auto x = [](const Shape& shape, unsigned seed) {
    return draw::uniform(shape, -1.5, 1.5, seed);
  };
  EXPECT_TRUE(swish.gradcheck(x({5, 7}, 1)));
  EXPECT_TRUE(rotate.gradcheck(x({5, 7}, 1), x({7}, 2)));
  EXPECT_TRUE(blend.gradcheck(x({3, 1}, 1), x({4}, 2), x({2, 1, 1}, 3)));
  EXPECT_TRUE(four.gradcheck(x({}, 1), x({3}, 2), x({2, 3}, 3), x({2, 1}, 4)));
  EXPECT_TRUE(four.gradcheck(x({0}, 1), x({1}, 2), x({2, 0}, 3), x({2, 1}, 4)));
  EXPECT_TRUE(rotate.gradcheck(layouts::with_layout(x({5, 7}, 5), Layout::transposed, {5, 7}),
                               layouts::with_layout(x({5, 7}, 6), Layout::reversed, {5, 7})));
}

// A wrong derivative must not pass: tests the check itself.
TEST(UserOp, GradcheckFindsAJump) {
  const auto jump = elementwise("jump", [](auto x) { return select(x > 0, x + 1, x); });
  EXPECT_FALSE(jump.gradcheck(full({3}, 1e-4, float64)));
  EXPECT_TRUE(jump.gradcheck(full({3}, 0.5, float64)));
}

TEST(UserOp, CapturedParameters) {
  double slope = 0.25;
  const auto leaky = elementwise("leaky", [slope](auto x) { return select(x > 0, x, slope * x); });
  const Tensor x = tensor({-2.0, 3.0});
  EXPECT_EQ(leaky(x).to_vector<float>(), (std::vector<float>{-0.5f, 3.0f}));
  EXPECT_EQ(leaky.backward(ones({2}), x).to_vector<float>(), (std::vector<float>{0.25f, 1.0f}));
}

// Every word, operator and condition, in one formula each, with its gradient check.
TEST(UserOp, TheWholeVocabulary) {
  // Away from every kink below.
  const Tensor x = tensor({0.33, 0.45, 0.55, 0.64, 0.78, 0.86}, float64);
  const Tensor y = tensor({1.13, 1.22, 1.37, 1.45, 1.62, 1.81}, float64);
#define EXPECT_WORKS(...)                                                                      \
  {                                                                                            \
    const auto op = elementwise("word", [](auto x, auto y) { return (__VA_ARGS__) + 0 * y; }); \
    const GradcheckResult result = op.gradcheck(x, y);                                         \
    EXPECT_TRUE(result) << #__VA_ARGS__ << ": " << result.message;                             \
  }
  EXPECT_WORKS(x + y)
  EXPECT_WORKS(2 - x * 3.0f)
  EXPECT_WORKS(-x / +y)
  EXPECT_WORKS(y % x)
  EXPECT_WORKS(max(x, 0.6) + min(x, y) + clamp(x, 0.4, 0.7) + clamp(y, x, 1.5))
  EXPECT_WORKS(pow(x, y) + power(2, x) + pow(y, 3))
  EXPECT_WORKS(select(x < 0.5 || y >= 1.5, x * x, y))
  EXPECT_WORKS(select(!(x <= 0.5) && y != 0, x, 1))
  EXPECT_WORKS(x * select(x == y, 1, 0))
  EXPECT_WORKS(select(isnan(x) || isinf(x) || !isfinite(x), 0, x))
  EXPECT_WORKS(hypot(x, y) + atan2(y, x) + logaddexp(x, y) + copysign(x, y))
  EXPECT_WORKS(softplus(x, 2) + leaky_relu(x) + elu(x, 0.5) + hard_tanh(x, -2, 2) + clip(x, 0, 1))
  EXPECT_WORKS(exp(x) + exp2(x) + expm1(x) + log(x) + log2(x) + log10(x) + log1p(x))
  EXPECT_WORKS(sqrt(x) + rsqrt(x) + cbrt(x) + square(x) + reciprocal(x) + abs(x) + sign(x))
  EXPECT_WORKS(sin(x) + cos(x) + tan(x) + asin(x) + acos(x) + atan(x) + asinh(x) + atanh(x))
  EXPECT_WORKS(sinh(x) + cosh(x) + tanh(x) + acosh(y) + erf(x) + normal_cdf(x) + normal_pdf(x))
  EXPECT_WORKS(relu(x) + relu6(x) + sigmoid(x) + log_sigmoid(x) + gelu(x) + gelu_tanh(x) + selu(x))
  EXPECT_WORKS(silu(x) + mish(x) + hard_sigmoid(x) + hard_swish(x) + x * floor(4 * y) + prelu(x, y))
#undef EXPECT_WORKS
}

TEST(UserOp, ConstantsAndInputsAsResults) {
  const Tensor x = draw::uniform({10000}, -1, 1, 1), g = ones({10000}, float64);
  const auto constant = elementwise("constant", [](auto) { return 2.5; });
  EXPECT_EQ(constant(x).to_vector<double>(), std::vector<double>(10000, 2.5));
  EXPECT_EQ(constant.backward(g, x).to_vector<double>(), std::vector<double>(10000, 0.0));
  const auto same = elementwise("same", [](auto x) { return x; });
  const Tensor copy = same(x);
  EXPECT_EQ(copy.to_vector<double>(), x.to_vector<double>());
  EXPECT_NE(copy.data<double>(), x.data<double>());
  EXPECT_EQ(same.backward(g, x).to_vector<double>(), g.to_vector<double>());
  const Tensor small = x.slice(0, 0, 8).clone();
  EXPECT_NE(same(small).data<double>(), small.data<double>());
}

TEST(UserOp, Dtypes) {
  const Tensor x = draw::uniform({3000}, -3, 3, 1), g = draw::uniform({3000}, 0.5, 1.5, 2);
  for (DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
    const Tensor narrow = x.to(dtype), narrow_g = g.to(dtype);
    EXPECT_EQ(swish(narrow).dtype(), dtype);
    // Computed in float32 and rounded once.
    const Tensor wide = swish(narrow.to(float32)).to(dtype);
    EXPECT_EQ(swish(narrow).to(float64).to_vector<double>(), wide.to(float64).to_vector<double>());
    EXPECT_EQ(swish.backward(narrow_g, narrow).dtype(), dtype);
  }
  EXPECT_EQ(swish(arange(5)).dtype(), float32);
  EXPECT_EQ(rotate(x.to(float16), x.to(float32)).dtype(), float32);
  const auto [grad_x, grad_y] = rotate.backward(g, x.to(float16), x.to(float32));
  EXPECT_EQ(grad_x.dtype(), float16);
  EXPECT_EQ(grad_y.dtype(), float32);
  EXPECT_THROW(swish.backward(ones({5}), arange(5)), DTypeError);
}

TEST(UserOp, ChunksLayoutsAndThreadsDoNotMatter) {
  const Shape shape{37, 613};
  const Tensor a = draw::uniform(shape, -1, 1, 1), b = draw::uniform({613}, -1, 1, 2);
  const auto expected = rotate(a, b.broadcast_to(shape).contiguous()).to_vector<double>();
  const int before = get_num_threads();
  for (int threads : {1, 2, 5}) {
    set_num_threads(threads);
    EXPECT_EQ(rotate(a, b).to_vector<double>(), expected);
    for (Layout layout : layouts::every_layout) {
      if (layout == Layout::broadcast) continue;
      SCOPED_TRACE(layout);
      EXPECT_EQ(rotate(layouts::with_layout(a, layout, shape), b).to_vector<double>(), expected);
    }
  }
  set_num_threads(before);
  const auto cube = elementwise("sum", [](auto x, auto y) { return x + 2 * y; });
  const Tensor x = arange(24, float64).reshape({2, 3, 4}), y = arange(3, float64).reshape({3, 1});
  EXPECT_EQ(cube(x, y).to_vector<double>(), (x + 2 * y).to_vector<double>());
  // Rows longer and shorter than a chunk, starting and ending inside one.
  for (const Shape& rows : {Shape{3, 5000}, Shape{5000, 3}, Shape{2, 1500, 3}, Shape{7, 1, 2000}}) {
    const Tensor dense = draw::uniform(rows, -1, 1, 3);
    const Tensor turned = layouts::with_layout(dense, Layout::transposed, rows);
    EXPECT_EQ(swish(turned).to_vector<double>(), swish(dense).to_vector<double>()) << rows;
  }
}

// The result's memory is passed to the kernel that produced the last chunk's result; a function
// that behaves differently on the next chunk must not break this.
TEST(UserOp, FunctionsThatChangeTheirWays) {
  std::atomic<int> calls{0};
  const auto fickle = elementwise("fickle", [&calls](auto x) {
    const auto doubled = x + x, tripled = doubled + x;
    return calls++ % 2 == 0 ? doubled * 1 : (tripled + doubled) - tripled;
  });
  const Tensor x = arange(100000, float64);
  EXPECT_EQ(fickle(x).to_vector<double>(), (2 * x).to_vector<double>());
  const auto twice = elementwise("twice", [](auto x) {
    const auto y = exp(x);
    static_cast<void>(y * 3);  // work after the result
    return y;
  });
  EXPECT_EQ(twice(x * 1e-5).to_vector<double>(), exp(x * 1e-5).to_vector<double>());
}

template <class E, class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(UserOp, ErrorsNameTheOp) {
  const Tensor a = ones({2, 3}), b = ones({4});
  EXPECT_EQ(message_of<ShapeError>([&] { rotate(a, b); }),
            "rotate: shapes do not broadcast: [2, 3] and [4]");
  EXPECT_EQ(message_of<ShapeError>([&] { swish.backward(b, a); }),
            "swish.backward: grad_output is [4], the forward gave [2, 3]");
  EXPECT_NE(message_of<ShapeError>([&] { rotate.backward(b, a, b); }).find("rotate.backward"),
            std::string::npos);
  // A function that returns a captured tensor.
  const expression::Value stray(ones({5}));
  const auto smuggler = elementwise("smuggler", [&](expression::Value) { return stray; });
  EXPECT_EQ(message_of<ShapeError>([&] { smuggler(a); }),
            "smuggler: the function gave [5] for 6 elements");
  EXPECT_NE(message_of<ShapeError>([&] { smuggler(ones({100000})); }).find("smuggler: "),
            std::string::npos);
  EXPECT_THROW(swish(Tensor()), ValueError);
}

TEST(UserOp, ExceptionsOfTheFunctionArrive) {
  const auto thrower =
      elementwise("thrower", [](auto x) -> decltype(x) { throw std::runtime_error("no value"); });
  const int before = get_num_threads();
  for (int threads : {1, 4}) {
    set_num_threads(threads);
    for (std::int64_t n : {3, 100000}) EXPECT_THROW(thrower(ones({n})), std::runtime_error);
  }
  set_num_threads(before);
  EXPECT_EQ(swish(zeros({3})).to_vector<float>(), (std::vector<float>{0, 0, 0}));
}

// Gradients follow the library's rule for singular denominators.
TEST(UserOp, SingularGradientsStayFinite) {
  const auto root = elementwise("root", [](auto x) { return sqrt(x) + log(x) + 1 / x; });
  const Tensor gradient = root.backward(ones({3}, float64), zeros({3}, float64));
  EXPECT_TRUE(all(isfinite(gradient)).item<bool>());
}

// ---- custom functions

// Sum and product of two tensors of one shape.
CustomFunction both() {
  return custom_function(
      "both",
      [](const Tensors& in) {
        return Tensors{in[0] + in[1], in[0] * in[1]};
      },
      [](const Tensors& g, const Tensors& in, const Tensors&) {
        return Tensors{g[0] + g[1] * in[1], g[0] + g[1] * in[0]};
      });
}

TEST(CustomFunction, ForwardBackwardAndGradcheck) {
  const Tensor a = draw::uniform({3, 2}, -1, 1, 1), b = draw::uniform({3, 2}, -1, 1, 2);
  const CustomFunction function = both();
  EXPECT_EQ(function.name(), "both");
  const Tensors outputs = function({a, b});
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(outputs[1].to_vector<double>(), (a * b).to_vector<double>());
  EXPECT_TRUE(function.gradcheck({a, b}));
  const Tensors gradients = function.backward({ones_like(a), ones_like(a)}, {a, b});
  EXPECT_EQ(gradients[0].to_vector<double>(), (1 + b).to_vector<double>());

  const CustomFunction wrong = custom_function(
      "wrong", [](const Tensors& in) { return Tensors{in[0] * in[0]}; },
      [](const Tensors& g, const Tensors& in, const Tensors&) { return Tensors{g[0] * in[0]}; });
  EXPECT_FALSE(wrong.gradcheck({a}));
}

TEST(CustomFunction, NoGradientIsUndefined) {
  const CustomFunction picks = custom_function(
      "picks", [](const Tensors& in) { return Tensors{where(in[1], in[0], -in[0])}; },
      [](const Tensors& g, const Tensors& in, const Tensors&) {
        return Tensors{where(in[1], g[0], -g[0]), Tensor()};
      });
  const Tensor mask = tensor({true, false});
  const Tensors gradients = picks.backward({ones({2})}, {tensor({1.0, 2.0}), mask});
  EXPECT_EQ(gradients[0].to_vector<float>(), (std::vector<float>{1, -1}));
  EXPECT_FALSE(gradients[1].defined());
}

TEST(BadInput, Item73CustomBackwardReturningTheWrongShapeOrCount) {
  const Tensor x = ones({2, 3});
  const auto function_giving = [](Tensors gradients) {
    return custom_function(
        "bad", [](const Tensors& in) { return Tensors{in[0]}; },
        [gradients](const Tensors&, const Tensors&, const Tensors&) { return gradients; });
  };
  EXPECT_EQ(message_of<ShapeError>([&] { function_giving({}).backward({x}, {x}); }),
            "bad.backward: gave 0 gradients for 1 inputs");
  EXPECT_EQ(message_of<ShapeError>([&] {
              function_giving({x, x}).backward({x}, {x});
            }),
            "bad.backward: gave 2 gradients for 1 inputs");
  EXPECT_EQ(message_of<ShapeError>([&] { function_giving({ones({3})}).backward({x}, {x}); }),
            "bad.backward: the gradient of input 0 is [3], the input is [2, 3]");
  EXPECT_EQ(message_of<DTypeError>([&] {
              function_giving({ones({2, 3}, float64)}).backward({x}, {x});
            }),
            "bad.backward: the gradient of input 0 is float64, the input is float32");
}

TEST(CustomFunction, OtherMistakes) {
  const Tensor x = ones({2, 3});
  const CustomFunction function = both();
  EXPECT_THROW(function.backward({x}, {x, x}), ShapeError);
  EXPECT_THROW(function.backward({x, ones({4})}, {x, x}), ShapeError);
  EXPECT_THROW(function.backward({x, ones({2, 3}, int64)}, {x, x}), DTypeError);
  EXPECT_THROW(custom_function("none", nullptr, nullptr), ValueError);
  const CustomFunction empty = custom_function(
      "empty", [](const Tensors&) { return Tensors{Tensor()}; },
      [](const Tensors&, const Tensors& in, const Tensors&) { return in; });
  EXPECT_EQ(message_of<ValueError>([&] { empty({x}); }),
            "empty: the forward gave no tensor as output 0");
}

}  // namespace
}  // namespace extensor
