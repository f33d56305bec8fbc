// Recording and going back, on tensors small enough to see through.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "extensor/extensor.h"

namespace extensor {
namespace {

std::vector<double> values(const Tensor& x) { return x.to(float64).to_vector<double>(); }

Tensor leaf(std::vector<double> numbers, const Shape& shape = {}) {
  const auto count = static_cast<std::int64_t>(numbers.size());
  return from_data(numbers, shape.empty() && count != 1 ? Shape{count} : shape).requires_grad_();
}

TEST(Autograd, GradientOfAProductOfSums) {
  Tensor a = leaf({1, 2, 3}), b = leaf({4, 5, 6});
  const Tensor y = sum(a * b) * sum(a);
  EXPECT_TRUE(y.requires_grad());
  EXPECT_FALSE(y.is_leaf());
  y.backward();
  // y = (a·b)·Σa: d/da = b·Σa + a·b, d/db = a·Σa
  EXPECT_EQ(values(a.grad()), (std::vector<double>{4 * 6 + 32, 5 * 6 + 32, 6 * 6 + 32}));
  EXPECT_EQ(values(b.grad()), (std::vector<double>{6, 12, 18}));
}

TEST(Autograd, GradientsAddUp) {
  Tensor x = leaf({2, 3});
  sum(x * x).backward();
  sum(x).backward();
  EXPECT_EQ(values(x.grad()), (std::vector<double>{5, 7}));
  x.set_grad({});
  EXPECT_FALSE(x.grad().defined());
}

TEST(Autograd, NothingIsRecordedWithoutNeed) {
  const Tensor x = ones({3});
  EXPECT_FALSE((x + 1).requires_grad());
  Tensor w = leaf({1, 2, 3});
  {
    const NoGrad off;
    EXPECT_FALSE((w * 2).requires_grad());
    const EnableGrad on;
    EXPECT_TRUE((w * 2).requires_grad());
  }
  EXPECT_TRUE((w * 2).requires_grad());
  EXPECT_FALSE((w * 2).detach().requires_grad());
  EXPECT_FALSE((w > 1).requires_grad());
}

TEST(Autograd, EveryOrderOfAPower) {
  const Tensor x = leaf({1.5}, {1});
  Tensor y = power(x, 5.0);
  double expected = std::pow(1.5, 5);
  for (int order = 1; order <= 7; ++order) {
    EXPECT_NEAR(values(y)[0], expected, 1e-10) << order;
    y = grad(sum(y), {x}, {.create_graph = true})[0];
    const int left = 6 - order;
    expected = left > 0 ? expected / 1.5 * left : 0;
  }
}

TEST(Autograd, EveryOrderOfASine) {
  const Tensor x = leaf({0.3, -1.2});
  Tensor y = sin(x);
  for (int order = 0; order < 6; ++order) {
    for (int k = 0; k < 2; ++k) {
      const double at = k == 0 ? 0.3 : -1.2;
      EXPECT_NEAR(values(y)[static_cast<std::size_t>(k)], std::sin(at + order * M_PI / 2), 1e-12);
    }
    y = grad(sum(y), {x}, {.create_graph = true})[0];
  }
}

TEST(Autograd, ThirdDerivativeOfTanhThroughItsResult) {
  const Tensor x = leaf({0.4}, {1});
  Tensor y = tanh(x);
  for (int order = 0; order < 3; ++order) y = grad(sum(y), {x}, {.create_graph = true})[0];
  const double t = std::tanh(0.4), s = 1 - t * t;
  EXPECT_NEAR(values(y)[0], s * (6 * t * t - 2), 1e-12);
}

TEST(Autograd, ViewsAndBroadcasts) {
  Tensor x = leaf({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor y = x.transpose().slice(0, 1, 3).reshape({4}) * leaf({1, 10, 100, 1000});
  sum(y).backward();
  EXPECT_EQ(values(x.grad()), (std::vector<double>{0, 1, 100, 0, 10, 1000}));
  Tensor row = leaf({1, 2, 3});
  sum(row.broadcast_to({4, 3}) * 2).backward();
  EXPECT_EQ(values(row.grad()), (std::vector<double>{8, 8, 8}));
}

TEST(Autograd, AChainOfAMillionNodes) {
  Tensor x = leaf({1.0}, {1});
  Tensor y = x;
  for (int i = 0; i < 1'000'000; ++i) y = y + 1.0;
  y.backward();
  EXPECT_EQ(values(x.grad())[0], 1);
}

}  // namespace
}  // namespace extensor
