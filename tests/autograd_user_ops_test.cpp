// User-defined ops in autograd.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "extensor/extensor.h"
#include "support/draw.h"

namespace extensor {
namespace {

using Tensors = std::vector<Tensor>;
using Call = std::function<Tensor(const Tensors&)>;

Tensors leaves_of(const Tensors& points) {
  Tensors leaves;
  for (const Tensor& x : points) leaves.push_back(x.clone().requires_grad_());
  return leaves;
}

// The gradients of Σ y³, which are not linear in y, so that a second gradient depends on all of
// them.
Tensors first_gradients(const Call& call, const Tensors& leaves, bool create_graph) {
  const Tensor y = call(leaves);
  return grad(sum(y * y * y), leaves, {.create_graph = create_graph});
}

Tensor joined(const Tensors& list) {
  Tensors flat;
  for (const Tensor& x : list) flat.push_back(flatten(x));
  return concatenate(flat);
}

// Compares first, second and third gradients with finite differences of the next lower order.
void expect_gradients_of_every_order(const Call& call, const Tensors& points) {
  const auto first =
      gradcheck([&](const Tensors& in) { return power(call(in), 3.0); },
                [&](const Tensor& g, const Tensors& in) {
                  const Tensors leaves = leaves_of(in);
                  return grad(power(call(leaves), 3.0), leaves, {.grad_outputs = {g}});
                },
                points);
  EXPECT_TRUE(first) << "first: " << first.message;
  const auto second = gradcheck(
      [&](const Tensors& in) { return joined(first_gradients(call, leaves_of(in), false)); },
      [&](const Tensor& g, const Tensors& in) {
        const Tensors leaves = leaves_of(in);
        return grad(joined(first_gradients(call, leaves, true)), leaves, {.grad_outputs = {g}});
      },
      points);
  EXPECT_TRUE(second) << "second: " << second.message;
  const auto square_of_second = [&](const Tensors& leaves, bool create_graph) {
    const Tensor flat = joined(first_gradients(call, leaves, true));
    return joined(grad(sum(flat * flat), leaves, {.create_graph = create_graph}));
  };
  const auto third =
      gradcheck([&](const Tensors& in) { return square_of_second(leaves_of(in), false); },
                [&](const Tensor& g, const Tensors& in) {
                  const Tensors leaves = leaves_of(in);
                  return grad(square_of_second(leaves, true), leaves, {.grad_outputs = {g}});
                },
                points);
  EXPECT_TRUE(third) << "third: " << third.message;
}

Tensor drawn(const Shape& shape, unsigned seed) { return draw::uniform(shape, -1.2, 1.2, seed); }

// ---- formulas

const auto wave = elementwise("wave", [](auto x, auto y) { return x * cos(y) - sin(x * y); });

TEST(AutogradUserOp, EveryOrderOfAFormulaWithAParameter) {
  const double beta = 1.7;
  const auto swish = elementwise("swish", [beta](auto x) { return x * sigmoid(beta * x); });
  expect_gradients_of_every_order([&](const Tensors& in) { return swish(in[0]); },
                                  {drawn({5, 7}, 1)});
}

TEST(AutogradUserOp, EveryOrderOfInputsThatBroadcast) {
  const Call call = [](const Tensors& in) { return wave(in[0], in[1]); };
  expect_gradients_of_every_order(call, {drawn({3, 4}, 1), drawn({4}, 2)});
  expect_gradients_of_every_order(call, {drawn({3, 1}, 3), drawn({1, 4}, 4)});
  expect_gradients_of_every_order(call, {drawn({}, 5), drawn({2, 3}, 6)});
}

// First-order gradients are bit-identical to the fused gradient, for one chunk and for many.
TEST(AutogradUserOp, FirstGradientIsTheExplicitOne) {
  for (const DType dtype : {float64, float32, bfloat16}) {
    for (const Shape& shape : {Shape{7, 5}, Shape{300, 100}}) {
      Tensor x = drawn(shape, 1).to(dtype).requires_grad_();
      Tensor y = drawn({shape.back()}, 2).to(dtype).requires_grad_();
      const Tensor z = wave(x, y), g = drawn(shape, 3).to(dtype);
      EXPECT_EQ(z.dtype(), dtype);
      const Tensors got = grad(z, {x, y}, {.grad_outputs = {g}});
      const auto expected = wave.backward(g, x.detach(), y.detach());
      for (std::size_t k = 0; k < 2; ++k) {
        EXPECT_EQ(got[k].dtype(), dtype);
        EXPECT_EQ(got[k].to(float64).to_vector<double>(),
                  expected[k].to(float64).to_vector<double>());
      }
    }
  }
}

// Inputs that require no gradient, also integers, get none.
TEST(AutogradUserOp, OnlyWhatIsAskedFor) {
  Tensor x = drawn({4}, 1).requires_grad_();
  const Tensor counts = tensor({1, 2, 3, 4});
  const auto scaled = elementwise("scaled", [](auto x, auto n) { return x * n; });
  sum(scaled(x, counts)).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_FALSE(scaled(x.detach(), counts).requires_grad());
  const NoGrad off;
  EXPECT_FALSE(scaled(x, counts).requires_grad());
}

TEST(AutogradUserOp, OutlivedByItsRecord) {
  Tensor x = drawn({6}, 1).requires_grad_();
  Tensor y;
  {
    const auto held = std::make_shared<double>(3.0);
    const auto op = elementwise("three squares", [held](auto v) { return *held * v * v; });
    y = sum(op(x));
  }
  const Tensor slope = grad(y, {x}, {.create_graph = true})[0];
  EXPECT_TRUE(allclose(slope, 6 * x.detach(), 1e-14));
  EXPECT_TRUE(allclose(grad(sum(slope), {x})[0], full({6}, 6.0, float64), 1e-14));
}

// The name in an error outlives the saved tensors and the op.
TEST(AutogradUserOp, SecondWalkNamesTheOp) {
  Tensor x = drawn({3}, 1).requires_grad_();
  Tensor y;
  {
    const auto op = elementwise("squared_by_hand_with_a_long_name", [](auto v) { return v * v; });
    y = sum(op(x));
  }
  y.backward();
  try {
    y.backward();
    FAIL() << "no error";
  } catch (const ValueError& error) {
    EXPECT_NE(std::string(error.what()).find("gone"), std::string::npos) << error.what();
  }
}

// A lambda that does not accept dual numbers is recorded as the operations that it calls.
TEST(AutogradUserOp, AFunctionOfPlainValues) {
  using expression::Value;
  const auto plain = elementwise("plain", [](const Value& x, const Value& y) { return x * x * y; });
  expect_gradients_of_every_order([&](const Tensors& in) { return plain(in[0], in[1]); },
                                  {drawn({3, 4}, 1), drawn({4}, 2)});
}

TEST(AutogradUserOp, GradientEpsIsTheScopes) {
  Tensor x = zeros({1}, float64).requires_grad_();
  const auto root = elementwise("root", [](auto v) { return sqrt(v); });
  EXPECT_TRUE(std::isfinite(grad(root(x), {x})[0].item<double>()));
  const GradientEps none(0);
  EXPECT_TRUE(std::isinf(grad(root(x), {x})[0].item<double>()));
}

// ---- custom functions

// Rows scaled to length 1, and their lengths; both gradients from the results.
CustomFunction normalize() {
  return custom_function(
      "normalize",
      [](const Tensors& in) {
        const Tensor length = sqrt(sum(square(in[0]), -1, true));
        return Tensors{in[0] / length, length};
      },
      [](const Tensors& g, const Tensors&, const Tensors& out) {
        const Tensor along = sum(g[0] * out[0], -1, true);
        return Tensors{(g[0] - along * out[0]) / out[1] + g[1] * out[0]};
      });
}

// x·y, with a backward that reads the inputs.
CustomFunction product() {
  return custom_function(
      "product", [](const Tensors& in) { return Tensors{in[0] * in[1]}; },
      [](const Tensors& g, const Tensors& in, const Tensors&) {
        return Tensors{g[0] * in[1], g[0] * in[0]};
      });
}

TEST(AutogradCustomFunction, EveryOrderThroughItsResults) {
  const CustomFunction function = normalize();
  const Tensor weights = drawn({3, 4}, 7);
  expect_gradients_of_every_order(
      [&](const Tensors& in) {
        const Tensors out = function(in);
        return out[0] * weights + out[1];
      },
      {drawn({3, 4}, 1)});
}

// A result on which nothing depends has a gradient of zeros.
TEST(AutogradCustomFunction, EveryOrderOfOneResult) {
  const CustomFunction function = normalize();
  expect_gradients_of_every_order([&](const Tensors& in) { return function(in)[0]; },
                                  {drawn({3, 4}, 1)});
  expect_gradients_of_every_order([&](const Tensors& in) { return function(in)[1]; },
                                  {drawn({3, 4}, 1)});
}

TEST(AutogradCustomFunction, EveryOrderThroughItsInputs) {
  const CustomFunction function = product();
  expect_gradients_of_every_order([&](const Tensors& in) { return function(in)[0]; },
                                  {drawn({3, 4}, 1), drawn({3, 4}, 2)});
  // The same tensor twice.
  expect_gradients_of_every_order(
      [&](const Tensors& in) {
        return function({in[0], in[0]})[0];
      },
      {drawn({3, 4}, 1)});
}

// A backward that walks the graph it is part of would wait for itself.
TEST(AutogradCustomFunction, ABackwardThatWalksItsOwnGraphIsRefused) {
  Tensor x = ones({2}, float64).requires_grad_(), output;
  const CustomFunction twice = custom_function(
      "twice", [](const Tensors& in) { return Tensors{in[0] * 2.0}; },
      [&](const Tensors& g, const Tensors&, const Tensors&) {
        output.backward(ones({2}, float64), {.retain_graph = true});
        return Tensors{g[0] * 2.0};
      });
  output = twice({x})[0];
  try {
    sum(output).backward();
    FAIL();
  } catch (const ValueError& error) {
    EXPECT_NE(std::string(error.what()).find("twice"), std::string::npos) << error.what();
  }
  EXPECT_FALSE(x.grad().defined());
  // Walking another graph is allowed.
  const CustomFunction other = custom_function(
      "other", [](const Tensors& in) { return Tensors{in[0] * 2.0}; },
      [&](const Tensors& g, const Tensors& in, const Tensors&) {
        const EnableGrad on;
        const Tensor y = in[0].detach().requires_grad_();
        return Tensors{g[0] * grad(sum(y * 2.0), {y})[0]};
      });
  sum(other({x})[0]).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{2, 2}));
}

// The user's backward defines the gradient, not the ops inside the forward.
TEST(AutogradCustomFunction, ForwardIsNotRecorded) {
  Tensor captured = ones({2}, float64).requires_grad_();
  bool recorded = false;
  const CustomFunction twice = custom_function(
      "twice",
      [&](const Tensors& in) {
        recorded = recorded || is_grad_enabled();
        return Tensors{in[0] * captured};
      },
      [](const Tensors& g, const Tensors&, const Tensors&) { return Tensors{g[0] * 10}; });
  Tensor x = ones({2}, float64).requires_grad_();
  sum(twice({x})[0]).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{10, 10}));
  EXPECT_FALSE(captured.grad().defined());
  EXPECT_FALSE(twice({ones({2}, float64)})[0].requires_grad());
  EXPECT_FALSE(recorded);
}

TEST(AutogradCustomFunction, OutlivedByItsRecord) {
  Tensor x = drawn({3, 4}, 1).requires_grad_();
  Tensor y, again;
  {
    const CustomFunction function = normalize();
    y = sum(function({x})[1]);
    again = sum(sqrt(sum(square(x), -1)));
  }
  EXPECT_TRUE(allclose(grad(y, {x})[0], grad(again, {x})[0], 1e-13));
}

TEST(AutogradCustomFunction, MovedFromStillWorks) {
  CustomFunction first = product();
  const CustomFunction second = std::move(first);
  EXPECT_EQ(first.name(), second.name());  // NOLINT: that it may be used is what is tested
}

// A result that is an input, or that the caller holds, does not become part of this function's
// history.
TEST(AutogradCustomFunction, ReturningAnInputOrAHeldTensor) {
  const Tensor held = full({2}, 5.0, float64);
  Tensor held_leaf = full({2}, 7.0, float64).requires_grad_();
  const CustomFunction same = custom_function(
      "same",
      [&](const Tensors& in) {
        return Tensors{in[0], held, held_leaf, in[0]};
      },
      [](const Tensors& g, const Tensors&, const Tensors&) {
        return Tensors{2 * g[0] + 3 * g[1] + 4 * g[2] + 5 * g[3]};
      });
  Tensor x = tensor({1.0, 2.0}, float64).requires_grad_();
  const Tensor inner = x * 3;
  const Tensors out = same({inner});
  EXPECT_TRUE(x.is_leaf());
  EXPECT_TRUE(held_leaf.is_leaf());
  EXPECT_FALSE(held.requires_grad());
  EXPECT_EQ(out[0].to_vector<double>(), inner.to_vector<double>());
  EXPECT_EQ(out[1].to_vector<double>(), held.to_vector<double>());
  // Each result has its own gradient, and `inner` keeps its history.
  for (std::size_t k = 0; k < out.size(); ++k) {
    const double factor = 3 * static_cast<double>(k + 2);
    EXPECT_EQ(grad(sum(out[k]), {x}, {.retain_graph = true})[0].to_vector<double>(),
              std::vector<double>(2, factor))
        << k;
  }
  EXPECT_EQ(grad(sum(inner), {x})[0].to_vector<double>(), std::vector<double>(2, 3));
  EXPECT_THROW(grad(sum(out[2]), {held_leaf}, {.retain_graph = true}), ValueError);
  // A returned leaf remains a leaf, also if nothing is recorded.
  const Tensor leaf_back = same({x})[0];
  EXPECT_TRUE(x.is_leaf());
  EXPECT_FALSE(leaf_back.is_leaf());
  EXPECT_FALSE(same({held})[2].requires_grad());
}

TEST(AutogradCustomFunction, IntegersHaveNoGradient) {
  const CustomFunction picks = custom_function(
      "picks",
      [](const Tensors& in) {
        return Tensors{take(in[0], in[1], 0), in[1]};
      },
      [](const Tensors& g, const Tensors& in, const Tensors& out) {
        EXPECT_FALSE(g[1].defined());
        return Tensors{take_backward(g[0], in[0].shape(), out[1], 0), Tensor()};
      });
  Tensor x = drawn({4}, 1).requires_grad_();
  const Tensors out = picks({x, tensor({2, 0, 2})});
  EXPECT_FALSE(out[1].requires_grad());
  const Tensor slope = grad(sum(square(out[0])), {x}, {.create_graph = true})[0];
  EXPECT_TRUE(allclose(grad(sum(slope), {x})[0], tensor({2.0, 0.0, 4.0, 0.0}, float64)));
}

// A saved tensor that was changed is an error, not a wrong gradient.
TEST(AutogradCustomFunction, ChangedInPlace) {
  Tensor x = drawn({4}, 1).requires_grad_();
  const Tensor doubled = x * 2;
  const Tensor y = sum(product()({doubled, doubled})[0]);
  Tensor alias = doubled.detach();
  alias.fill(0);
  EXPECT_THROW(y.backward(), ValueError);
}

TEST(AutogradCustomFunction, AnErrorOfTheBackwardArrives) {
  const CustomFunction fails = custom_function(
      "fails", [](const Tensors& in) { return Tensors{in[0] * 2}; },
      [](const Tensors&, const Tensors&, const Tensors&) -> Tensors {
        throw std::runtime_error("no gradient today");
      });
  Tensor x = ones({2}).requires_grad_();
  const Tensor y = sum(fails({x})[0]);
  EXPECT_THROW(y.backward(), std::runtime_error);
  EXPECT_THROW(y.backward(), std::runtime_error);  // no lock remains held
  EXPECT_FALSE(x.grad().defined());
}

// ---- bad inputs

template <class Error>
void expect_refused(const std::function<Tensors(const Tensors&)>& gradients, const char* what) {
  const CustomFunction wrong = custom_function(
      "wrong", [](const Tensors& in) { return Tensors{in[0] * in[1]}; },
      [=](const Tensors& g, const Tensors&, const Tensors&) { return gradients(g); });
  Tensor x = ones({2, 3}).requires_grad_();
  const Tensor y = sum(wrong({x, ones({2, 3})})[0]);
  try {
    y.backward();
    FAIL() << "no error, expected " << what;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    EXPECT_TRUE(std::string(error.what()).starts_with("wrong.backward: ")) << error.what();
  }
  EXPECT_FALSE(x.grad().defined());
}

TEST(BadInput73, CustomBackwardGivesAnotherCount) {
  expect_refused<ShapeError>([](const Tensors& g) { return Tensors{g[0]}; },
                             "gave 1 gradients for 2 inputs");
  expect_refused<ShapeError>([](const Tensors&) { return Tensors{}; },
                             "gave 0 gradients for 2 inputs");
  expect_refused<ShapeError>(
      [](const Tensors& g) {
        return Tensors{g[0], g[0], g[0]};
      },
      "gave 3 gradients for 2 inputs");
}

TEST(BadInput73, CustomBackwardGivesAnotherShape) {
  expect_refused<ShapeError>(
      [](const Tensors& g) {
        return Tensors{sum(g[0]), Tensor()};
      },
      "the gradient of input 0 is []");
  expect_refused<ShapeError>(
      [](const Tensors& g) {
        return Tensors{g[0].transpose(), g[0]};
      },
      "the gradient of input 0 is [3, 2]");
}

TEST(BadInput73, CustomBackwardGivesAnotherDType) {
  expect_refused<DTypeError>(
      [](const Tensors& g) {
        return Tensors{g[0].to(float64), Tensor()};
      },
      "the gradient of input 0 is float64");
}

}  // namespace
}  // namespace extensor
