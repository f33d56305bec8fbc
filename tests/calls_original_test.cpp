// The calls of the original specification, and the tests that it asks for.
#include <gtest/gtest.h>

#include <cmath>

#include "op_database/op_database.h"

namespace {

using ext::Shape;
using ext::Tensor;
using Values = std::vector<double>;

Values values(const Tensor& x) { return x.to(ext::float64).to_vector<double>(); }

// ---- calls

TEST(CallsOriginal, NumericalGradient) {
  const Tensor x = ext::tensor({{1.0, 2.0}, {-3.0, 0.5}}, ext::float64);
  const Tensor g = ext::numerical_gradient([](const Tensor& at) { return at * at; }, x, 1e-5);
  EXPECT_EQ(g.shape(), x.shape());
  const Values got = values(g), exact{2, 4, -6, 1};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(got[i], exact[i], 1e-9);
  EXPECT_EQ(values(x), (Values{1, 2, -3, 0.5}));  // unchanged
  const Tensor narrow = ext::numerical_gradient([](const Tensor& at) { return ext::exp(at); },
                                                ext::tensor({0.0, 1.0}));
  EXPECT_EQ(narrow.dtype(), ext::float32);
  EXPECT_NEAR(narrow[1].item<double>(), std::exp(1.0), 1e-6);
  EXPECT_EQ(ext::numerical_gradient([](const Tensor& at) { return at; }, ext::zeros({0})).numel(),
            0);
  // Layouts: x is read as it is.
  EXPECT_NEAR(
      values(ext::numerical_gradient([](const Tensor& at) { return at * at; }, x.transpose()))[1],
      -6, 1e-9);
  EXPECT_THROW(ext::numerical_gradient([](const Tensor& at) { return at; }, ext::tensor({1})),
               ext::DTypeError);
  EXPECT_THROW(ext::numerical_gradient([](const Tensor& at) { return at; }, x, 0), ext::ValueError);
}

TEST(CallsOriginal, CheckGradient) {
  const Tensor x = ext::tensor({0.5, -1.5, 2.0});
  const auto forward = [](const Tensor& at) { return ext::tanh(at); };
  const auto right = [](const Tensor& g, const Tensor& at) {
    return ext::tanh_backward(g, ext::tanh(at));
  };
  const auto wrong = [](const Tensor& g, const Tensor& at) { return g * ext::tanh(at); };
  EXPECT_TRUE(ext::check_gradient(forward, right, x));
  EXPECT_TRUE(ext::check_gradient(forward, right, x.to(ext::float16), 1e-3, 1e-6));
  EXPECT_FALSE(ext::check_gradient(forward, wrong, x));
  // A tolerance that is wide enough accepts a gradient that is slightly off.
  const auto close = [&](const Tensor& g, const Tensor& at) { return right(g, at) * 1.001; };
  EXPECT_FALSE(ext::check_gradient(forward, close, x));
  EXPECT_TRUE(ext::check_gradient(forward, close, x, 1e-3, 1e-2));
  EXPECT_THROW(ext::check_gradient(forward, right, ext::tensor({1})), ext::DTypeError);
}

TEST(CallsOriginal, ExtremesWithIndices) {
  const Tensor x = ext::tensor({{1.0, 5.0, 5.0}, {7.0, 2.0, 3.0}});
  const auto [largest, where_largest] = max_with_indices(x, 1);
  EXPECT_EQ(values(largest), (Values{5, 7}));
  EXPECT_EQ(values(where_largest), (Values{1, 0}));
  EXPECT_EQ(where_largest.dtype(), ext::int64);
  const auto [smallest, where_smallest] = min_with_indices(x, 0, true);
  EXPECT_EQ(smallest.shape(), (Shape{1, 3}));
  EXPECT_EQ(values(where_smallest), (Values{0, 1, 1}));
  EXPECT_EQ(max_with_indices(x).indices.item<std::int64_t>(), 3);
  EXPECT_EQ(values(max_reduce(x, 1)), (Values{5, 7}));
  EXPECT_EQ(values(min_reduce(x)), Values{1});
  EXPECT_THROW(max_with_indices(ext::zeros({0})), ext::ValueError);
}

TEST(CallsOriginal, XavierByFans) {
  ext::Generator generator(1);
  const Tensor u = ext::xavier_uniform(300, 100, {200, 500}, ext::float64, generator);
  const double bound = std::sqrt(6.0 / 400);
  EXPECT_LE(abs(u).max().item<double>(), bound);
  EXPECT_GT(abs(u).max().item<double>(), 0.999 * bound);
  const Tensor n = ext::xavier_normal(300, 100, {200, 500}, ext::float64, generator);
  EXPECT_NEAR(n.std().item<double>(), std::sqrt(2.0 / 400), 5 * std::sqrt(2.0 / 400 / 2e5));
  EXPECT_EQ(ext::xavier_uniform(3, 4, {7}).shape(), (Shape{7}));  // any rank
  // The fans of the shape give the same draws.
  ext::Generator a(9), b(9);
  EXPECT_EQ(values(ext::xavier_uniform(5, 3, {3, 5}, ext::float32, a)),
            values(ext::xavier_uniform({3, 5}, 1, ext::float32, b)));
  EXPECT_THROW(ext::xavier_uniform(-1, 4, {2}), ext::ValueError);
  EXPECT_THROW(ext::xavier_normal(0, 0, {2}), ext::ValueError);
}

TEST(CallsOriginal, FunctionalStepLossAndCopy) {
  const Tensor p = ext::tensor({1.0, 2.0}, ext::float64),
               g = ext::tensor({8.0, -8.0}, ext::float64);
  const Tensor next = sgd_step(p, g, 0.125);
  EXPECT_EQ(values(next), (Values{0, 3}));
  EXPECT_EQ(values(p), (Values{1, 2}));
  Tensor in_place = p.copy();
  sgd_step(in_place, g, {.lr = 0.125});
  EXPECT_EQ(values(in_place), values(next));
  EXPECT_EQ(values(p), (Values{1, 2}));  // copy() is independent
  EXPECT_THROW(static_cast<void>(sgd_step(p, ext::zeros({3}, ext::float64), 0.1)), ext::ShapeError);
  EXPECT_THROW(static_cast<void>(sgd_step(p, g, -1)), ext::ValueError);
  EXPECT_FALSE(sgd_step(p.copy().requires_grad_(), g, 0.1).requires_grad());

  const Tensor y = ext::tensor({0.0, 4.0}, ext::float64);
  EXPECT_EQ(mse(p, y).item<double>(), 2.5);
  const auto [of_x, of_y] = mse_backward(ext::ones({}, ext::float64), p, y);
  EXPECT_EQ(values(of_x), (Values{1, -2}));
  EXPECT_EQ(values(of_y), (Values{-1, 2}));
}

TEST(CallsOriginal, WarmupScheduler) {
  ext::optim::SGD optimizer({ext::zeros({1}).requires_grad_()}, {.lr = 0.8});
  ext::optim::WarmupScheduler warmup(optimizer, {.warmup_steps = 4});
  Values rates{optimizer.lr(0)};
  for (int i = 0; i < 6; ++i) {
    warmup.step();
    rates.push_back(optimizer.lr(0));
  }
  EXPECT_EQ(rates, (Values{0, 0.2, 0.4, 0.8 * 0.75, 0.8, 0.8, 0.8}));
  // State.
  ext::optim::SGD other({ext::zeros({1}).requires_grad_()}, {.lr = 0.8});
  ext::optim::WarmupScheduler resumed(other, {.warmup_steps = 4, .start_factor = 0.5});
  EXPECT_EQ(other.lr(0), 0.4);
  resumed.load_state_dict(warmup.state_dict());
  EXPECT_EQ(resumed.last_epoch(), 6);
  EXPECT_THROW(ext::optim::WarmupScheduler(other, {}), ext::ValueError);
  EXPECT_THROW(ext::optim::WarmupScheduler(other, {.warmup_steps = 2, .start_factor = 2}),
               ext::ValueError);
}

// ---- tests of the specification

// The gradients of every op are linear in those of its results: zeros give zeros.
TEST(CallsOriginal, ZeroGradientsGiveZeroGradients) {
  int checked = 0;
  for (const auto& op : ext::op_database::ops()) {
    for (const auto& sample : op.samples()) {
      if (!sample.backward) continue;
      std::vector<Tensor> arguments = sample.inputs, zeros;
      const std::vector<Tensor> results = sample.forward(sample.inputs);
      for (const Tensor& result : results) {
        if (!result.defined()) {
          zeros.emplace_back();
          continue;
        }
        zeros.push_back(ext::is_floating_point(result.dtype()) ? ext::zeros_like(result)
                                                               : Tensor());
      }
      if (sample.saves_results) arguments.insert(arguments.end(), results.begin(), results.end());
      for (const Tensor& gradient : sample.backward(zeros, arguments)) {
        if (!gradient.defined()) continue;
        ++checked;
        EXPECT_TRUE((gradient == 0).all().item<bool>()) << op.name << ", " << sample.label;
      }
    }
  }
  EXPECT_GT(checked, 1000);
}

// Two layers, trained with explicit backwards only, on y = sin(x).
TEST(CallsOriginal, PerceptronTrainedByExplicitBackwards) {
  ext::Generator generator(4);
  const Tensor x = ext::linspace(-3, 3, 64, ext::float64).reshape(64, 1), y = ext::sin(x);
  Tensor w1 = ext::xavier_uniform(1, 32, {1, 32}, ext::float64, generator) * 3,
         b1 = ext::uniform({32}, -1, 1, ext::float64, generator);
  Tensor w2 = ext::xavier_uniform(32, 1, {32, 1}, ext::float64, generator),
         b2 = ext::zeros({1}, ext::float64);
  double loss = 0;
  for (int epoch = 0; epoch < 4000; ++epoch) {
    const Tensor z1 = matmul(x, w1) + b1, h = ext::tanh(z1), product = matmul(h, w2);
    const Tensor prediction = product + b2;
    loss = mse(prediction, y).item<double>();
    const Tensor g = mse_backward(ext::ones({}, ext::float64), prediction, y).first;
    const auto [g_product, g_b2] = add_backward(g, product.shape(), b2.shape());
    const auto [g_h, g_w2] = matmul_backward(g_product, h, w2);
    const auto [g_z1, g_b1] = add_backward(tanh_backward(g_h, h), z1.shape(), b1.shape());
    const auto [g_x, g_w1] = matmul_backward(g_z1, x, w1);
    w1 = sgd_step(w1, g_w1, 0.1);
    b1 = sgd_step(b1, g_b1, 0.1);
    w2 = sgd_step(w2, g_w2, 0.1);
    b2 = sgd_step(b2, g_b2, 0.1);
  }
  EXPECT_LT(loss, 1e-3);
}

// softmax(relu(x·W₁ + b₁)·W₂ + b₂), differentiated by chaining explicit backwards.
TEST(CallsOriginal, ChainOfExplicitBackwardsEqualsAutograd) {
  ext::Generator generator(2);
  const auto drawn = [&](const Shape& shape) { return ext::randn(shape, ext::float64, generator); };
  const Tensor x = drawn({5, 4}), w1 = drawn({4, 6}), b1 = drawn({6}), w2 = drawn({6, 3}),
               b2 = drawn({3}), g = drawn({5, 3});
  const Tensor xw = matmul(x, w1), z1 = xw + b1, h = relu(z1), hw = matmul(h, w2), z2 = hw + b2,
               y = softmax(z2);
  const Tensor g_z2 = softmax_backward(g, y);
  const auto [g_hw, g_b2] = add_backward(g_z2, hw.shape(), b2.shape());
  const auto [g_h, g_w2] = matmul_backward(g_hw, h, w2);
  const Tensor g_z1 = relu_backward(g_h, z1);
  const auto [g_xw, g_b1] = add_backward(g_z1, xw.shape(), b1.shape());
  const auto [g_x, g_w1] = matmul_backward(g_xw, x, w1);

  std::vector<Tensor> leaves;
  for (const Tensor& input : {x, w1, b1, w2, b2}) leaves.push_back(input.copy().requires_grad_());
  softmax(matmul(relu(matmul(leaves[0], leaves[1]) + leaves[2]), leaves[3]) + leaves[4])
      .backward(g);
  const Tensor explicit_gradients[] = {g_x, g_w1, g_b1, g_w2, g_b2};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(values(leaves[i].grad()), values(explicit_gradients[i])) << i;
  }
}

}  // namespace
