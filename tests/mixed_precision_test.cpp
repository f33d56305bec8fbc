// Autocast and loss scaling: the dtype of each computation, and that training works.
#include <gtest/gtest.h>

#include <cmath>

#include "extensor/extensor.h"

namespace extensor {
namespace {

TEST(Autocast, ProductsAreHalvesAndLossesAreNot) {
  const Tensor x = rand({4, 8}), target = zeros({4}, int64);
  nn::Linear layer(8, 3);
  Tensor loss;
  {
    const Autocast half;
    EXPECT_EQ(autocast_dtype(), bfloat16);
    EXPECT_EQ(layer(x).dtype(), bfloat16);
    EXPECT_EQ(matmul(x, x.transpose()).dtype(), bfloat16);
    EXPECT_EQ(conv2d(rand({1, 1, 5, 5}), rand({1, 1, 3, 3})).dtype(), bfloat16);
    EXPECT_EQ(scaled_dot_product_attention(x, x, x).dtype(), bfloat16);
    EXPECT_EQ((x + 1.0).dtype(), float32);
    EXPECT_EQ(matmul(x.to(float64), x.transpose().to(float64)).dtype(), float64);
    loss = cross_entropy(layer(x), target);
    EXPECT_EQ(loss.dtype(), float32);
    EXPECT_EQ(mean_squared_error(layer(x), zeros({4, 3})).dtype(), float32);
    {
      const Autocast off(bfloat16, false);
      EXPECT_EQ(layer(x).dtype(), float32);
    }
    EXPECT_EQ(layer(x).dtype(), bfloat16);
  }
  EXPECT_EQ(layer(x).dtype(), float32);
  loss.backward();
  EXPECT_EQ(layer.weight.tensor().grad().dtype(), float32);
  EXPECT_THROW(const Autocast half(float32), DTypeError);
}

// The gradient through halves matches that of float32 to the precision of a half.
TEST(Autocast, GradientsAreNearTheExactOnes) {
  manual_seed(0);
  const Tensor x = rand({16, 32}), target = randint(0, 5, {16});
  models::Mlp model({32, 24, 5});
  cross_entropy(model(x), target).backward();
  std::vector<Tensor> exact;
  for (const Tensor& parameter : model.parameters()) exact.push_back(parameter.grad());
  model.zero_grad();
  {
    const Autocast half;
    cross_entropy(model(x), target).backward();
  }
  const std::vector<Tensor> parameters = model.parameters();
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    const double error = max_reduce(abs(parameters[k].grad() - exact[k])).item<double>();
    EXPECT_LE(error, 0.03 * max_reduce(abs(exact[k])).item<double>() + 1e-4) << k;
  }
}

// Regression: Autocast gave the kernel gates of half the width, and the kernel wrote out of bounds.
TEST(Autocast, RecurrentLayersComputeAsWithoutIt) {
  manual_seed(0);
  const Tensor x = rand({7, 3, 5});
  const auto run = [&](auto& layer, bool enabled) {
    layer.zero_grad();
    const Autocast half(bfloat16, enabled);
    const Tensor output = layer(x).output;
    sum(square(output)).backward();
    std::vector<Tensor> results{output.detach()};
    for (const Tensor& parameter : layer.parameters()) results.push_back(parameter.grad());
    return results;
  };
  const auto check = [&](auto layer) {
    const std::vector<Tensor> exact = run(layer, false), under = run(layer, true);
    for (std::size_t k = 0; k < exact.size(); ++k) {
      EXPECT_EQ(under[k].to_vector<float>(), exact[k].to_vector<float>()) << k;
    }
  };
  check(nn::RNN(5, 4));
  check(nn::LSTM(5, 4, {.layers = 2}));
  check(nn::GRU(5, 4, {.bidirectional = true}));
}

// Fits a line whose gradients are below the range of float16: its smallest number is 2⁻²⁴.
double loss_after_training(bool scaled) {
  manual_seed(1);
  const Tensor x = rand({64, 4});
  const Tensor y = sum(x, 1, true) * 1e-4;
  nn::Linear model(4, 1, {.bias = false});
  {
    const NoGrad off;
    model.weight.tensor().fill(0);
  }
  optim::Adam optimizer(model.parameters(), {.lr = 2e-6});
  optim::GradScaler scaler(
      {.init_scale = 65536.0 * 1024, .growth_interval = 50, .enabled = scaled});
  double last = 0;
  for (int step = 0; step < 200; ++step) {
    optimizer.zero_grad();
    Tensor output;
    {
      const Autocast half(float16);
      output = model(x);
    }
    // In float16 up to here, so the gradient passes through a half.
    const Tensor loss = mean(square(output.to(float32) - y)) * 1e-3;
    scaler.scale(loss).backward();
    scaler.step(optimizer);
    scaler.update();
    last = mean(square(linear(x, model.weight) - y)).item<double>();
  }
  return last;
}

TEST(GradScaler, TrainsWherePlainFloat16DoesNot) {
  const double before = mean(square(sum(rand({64, 4}), 1) * 1e-4)).item<double>();
  EXPECT_GT(loss_after_training(false), 0.3 * before);  // every gradient was 0
  EXPECT_LT(loss_after_training(true), 1e-2 * before);
}

TEST(GradScaler, SkipsAndRecovers) {
  Tensor w = ones({2}).requires_grad_();
  optim::SGD optimizer({w}, {.lr = 0.5});
  optim::GradScaler scaler({.init_scale = 1024, .growth_interval = 2});
  const auto run = [&](double gradient) {
    optimizer.zero_grad();
    scaler.scale(sum(w * gradient)).backward();
    const bool stepped = scaler.step(optimizer);
    scaler.update();
    return stepped;
  };
  EXPECT_FALSE(run(INFINITY));
  EXPECT_EQ(scaler.scale(), 512);
  EXPECT_EQ(w[0].item<float>(), 1);
  EXPECT_TRUE(run(1));
  EXPECT_EQ(w[0].item<float>(), 0.5F);
  EXPECT_TRUE(run(1));
  EXPECT_EQ(scaler.scale(), 1024);
  EXPECT_EQ(w[0].item<float>(), 0);
  optim::GradScaler other;
  other.load_state_dict(scaler.state_dict());
  EXPECT_EQ(other.scale(), 1024);
}

TEST(GradScaler, UnscalesOnceToClip) {
  Tensor w = ones({1}).requires_grad_();
  optim::SGD optimizer({w}, {.lr = 1});
  optim::GradScaler scaler({.init_scale = 64});
  scaler.scale(sum(w * 10.0)).backward();
  scaler.unscale(optimizer);
  EXPECT_EQ(w.grad().item<float>(), 10);
  EXPECT_THROW(scaler.unscale(optimizer), ValueError);
  optim::clip_grad_norm({w}, 1);
  EXPECT_TRUE(scaler.step(optimizer));
  EXPECT_NEAR(w.item<float>(), 0, 1e-5);
  EXPECT_THROW(optim::GradScaler({.init_scale = 0}), ValueError);
  EXPECT_THROW(optim::GradScaler({.growth_factor = 1}), ValueError);
}

}  // namespace
}  // namespace extensor
