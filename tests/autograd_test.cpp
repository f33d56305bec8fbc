// Recording and the backward pass, on tensors small enough to compute by hand.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <stdexcept>
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

TEST(Autograd, HooksSeeAndChangeGradients) {
  Tensor x = leaf({1, 2});
  Tensor y = x * 3.0;
  int calls = 0;
  const std::size_t id = y.register_hook([&](const Tensor& g) {
    ++calls;
    return g * 10.0;
  });
  x.register_hook([&](const Tensor&) { return Tensor(); });  // leaves the gradient unchanged
  sum(y).backward({.retain_graph = true});
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(values(x.grad()), (std::vector<double>{30, 30}));
  y.remove_hook(id);
  x.set_grad({});
  sum(y).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(values(x.grad()), (std::vector<double>{3, 3}));
}

TEST(Autograd, HooksAndCallersMayWriteToTheGradientOfASum) {
  Tensor x = leaf({1, 2});
  Tensor y = x * 3.0, z = x * 2.0;
  y.register_hook([&](const Tensor& g) {
    Tensor changed = g;
    changed[0] = 7.0;
    return changed;
  });
  EXPECT_EQ(values(grad(mean(y), {x})[0]), (std::vector<double>{21, 1.5}));
  z.retain_grad();
  Tensor found = grad(mean(z), {z}, {.retain_graph = true})[0];
  EXPECT_TRUE(found.is_contiguous());
  EXPECT_EQ(values(found += 1.0), (std::vector<double>{1.5, 1.5}));
  sum(z).backward();
  EXPECT_EQ(values(z.grad() *= 2.0), (std::vector<double>{2, 2}));
}

TEST(Autograd, AHookOnALeafSeesTheWholeGradientOnce) {
  Tensor x = leaf({2.0}, {1});
  std::vector<double> seen;
  x.register_hook([&](const Tensor& g) {
    seen.push_back(values(g)[0]);
    return Tensor();
  });
  sum(x * x + x * 5.0).backward();
  EXPECT_EQ(seen, std::vector<double>{9});
}

TEST(Autograd, RetainedGradients) {
  Tensor x = leaf({1, 2});
  Tensor y = x * x;
  EXPECT_FALSE(y.grad().defined());
  y.retain_grad();
  sum(y * 2.0).backward();
  EXPECT_EQ(values(y.grad()), (std::vector<double>{2, 2}));
}

TEST(Autograd, InPlaceOnWhatNoGradientNeeds) {
  Tensor x = leaf({1, 2});
  Tensor y = x + 1.0;
  y *= 3.0;
  y += x;
  sum(y).backward();
  EXPECT_EQ(values(x.grad()), (std::vector<double>{4, 4}));
}

TEST(Autograd, InPlaceOnALeafIsRefusedWhileRecording) {
  Tensor x = leaf({1, 2});
  EXPECT_THROW(x += 1.0, ValueError);
  EXPECT_EQ(values(x), (std::vector<double>{1, 2}));
  const NoGrad off;
  x += 1.0;
  EXPECT_EQ(values(x), (std::vector<double>{2, 3}));
}

TEST(Autograd, GradOfComputedInputsAndUnusedOnes) {
  const Tensor x = leaf({3.0}, {1}), other = leaf({1.0}, {1});
  const Tensor y = x * x;
  const auto gradients = grad(sum(y * y), {y, x});
  EXPECT_EQ(values(gradients[0])[0], 18);
  EXPECT_EQ(values(gradients[1])[0], 108);
  EXPECT_FALSE(x.grad().defined());
  EXPECT_THROW(grad(sum(x * x), {other}), ValueError);
  EXPECT_FALSE(grad(sum(x * x), {other}, {.allow_unused = true})[0].defined());
  EXPECT_THROW(grad(sum(x * x), {ones({1})}), ValueError);
}

TEST(Autograd, CheckpointGivesTheSameGradients) {
  manual_seed(3);
  const Tensor w = rand({4, 4}).requires_grad_();
  const auto layer = [&](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{dropout(tanh(matmul(in[0], w)), 0.5).output};
  };
  const auto run = [&](bool checkpointed) {
    manual_seed(7);
    Tensor x = ones({2, 4}).requires_grad_();
    Tensor leaf_w = w;
    leaf_w.set_grad({});
    const Tensor y = checkpointed ? checkpoint(layer, {x})[0] : layer({x})[0];
    sum(y * y).backward();
    return std::pair(x.grad(), w.grad().clone());
  };
  const auto plain = run(false), again = run(true);
  EXPECT_TRUE(allclose(plain.first, again.first, 0, 0));
  EXPECT_TRUE(allclose(plain.second, again.second, 0, 0));
}

TEST(Autograd, DirectionalDerivative) {
  const Tensor x = from_data(std::vector<double>{0.5, 1.5}),
               v = from_data(std::vector<double>{1, -2});
  const auto [outputs, tangents] = jvp(
      [](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{sin(in[0]), sum(in[0] * in[0]), ones({2}, float64)};
      },
      {x}, {v});
  EXPECT_NEAR(values(tangents[0])[0], std::cos(0.5), 1e-12);
  EXPECT_NEAR(values(tangents[0])[1], -2 * std::cos(1.5), 1e-12);
  EXPECT_NEAR(values(tangents[1])[0], 2 * (0.5 - 3), 1e-12);
  EXPECT_EQ(values(tangents[2]), (std::vector<double>{0, 0}));
  EXPECT_EQ(outputs.size(), 3U);
}

TEST(Autograd, AnomalyModeNamesTheOp) {
  const Tensor x = leaf({-1.0}, {1});
  const AnomalyMode looking;
  try {
    (void)exp(log(x));
    FAIL();
  } catch (const ValueError& error) {
    EXPECT_NE(std::string(error.what()).find("log"), std::string::npos) << error.what();
  }
  // The backward pass computes 0 · ∞: the first NaN comes from multiply.
  const GradientEps ieee(0);
  const Tensor zero = leaf({0.0}, {1});
  const Tensor y = sqrt(zero) * 0.0;
  try {
    sum(y).backward();
    FAIL();
  } catch (const ValueError& error) {
    EXPECT_NE(std::string(error.what()).find("sqrt"), std::string::npos) << error.what();
  }
}

TEST(Autograd, SingularGradientsAreFiniteUnlessIeeeIsAsked) {
  Tensor x = leaf({0.0}, {1});
  sum(sqrt(x)).backward();
  EXPECT_TRUE(std::isfinite(values(x.grad())[0]));
  x.set_grad({});
  const GradientEps ieee(0);
  sum(sqrt(x)).backward();
  EXPECT_TRUE(std::isinf(values(x.grad())[0]));
}

TEST(Autograd, LeavesHaveGradientsOfTheirOwn) {
  Tensor a = leaf({1, 2}), b = leaf({3, 4});
  sum(a + b).backward();
  a.grad() += 1.0;
  EXPECT_EQ(values(b.grad()), (std::vector<double>{1, 1}));
}

// ---- bad input

TEST(BadInput69, BackwardOfMoreThanOneNumberWantsAGradient) {
  Tensor x = leaf({1, 2});
  EXPECT_THROW((x * 2.0).backward(), ShapeError);
  EXPECT_THROW((x * 2.0).backward(ones({3}, float64)), ShapeError);
  EXPECT_THROW((x * 2.0).backward(ones({2}, float32)), DTypeError);
  EXPECT_THROW(ones({1}).backward(), ValueError);
  (x * 2.0).backward(ones({2}, float64));
  EXPECT_EQ(values(x.grad()), (std::vector<double>{2, 2}));
}

TEST(BadInput70, BackwardTwiceNeedsTheGraph) {
  Tensor x = leaf({3.0}, {1});
  const Tensor y = sum(x * x);
  y.backward({.retain_graph = true});
  y.backward();
  EXPECT_EQ(values(x.grad())[0], 12);
  EXPECT_THROW(y.backward(), ValueError);
  EXPECT_EQ(values(x.grad())[0], 12);
}

TEST(BadInput71, ASavedTensorWasChanged) {
  Tensor x = leaf({1, 2});
  Tensor factor = ones({2}, float64);
  const Tensor y = sum(x * factor);
  factor += 1.0;
  try {
    y.backward();
    FAIL();
  } catch (const ValueError& error) {
    EXPECT_NE(std::string(error.what()).find("multiply"), std::string::npos) << error.what();
  }
  sum(x * factor).backward();
  EXPECT_EQ(values(x.grad()), (std::vector<double>{2, 2}));
}

TEST(BadInput72, AChainOfAMillionNodes) {
  Tensor x = leaf({1.0}, {1});
  Tensor y = x;
  for (int i = 0; i < 1'000'000; ++i) y = y + 1.0;
  y.backward();
  EXPECT_EQ(values(x.grad())[0], 1);
  for (int i = 0; i < 1'000'000; ++i) y = y + 1.0;
  y = Tensor();  // destroyed without a backward pass
}

TEST(BadInput74, AHookThatThrows) {
  Tensor x = leaf({1, 2});
  const Tensor y = x * 2.0;
  Tensor hooked = y;
  const std::size_t id =
      hooked.register_hook([](const Tensor&) -> Tensor { throw std::runtime_error("no"); });
  EXPECT_THROW(sum(y).backward({.retain_graph = true}), std::runtime_error);
  hooked.remove_hook(id);
  hooked.register_hook([](const Tensor&) { return ones({3}, float64); });
  EXPECT_THROW(sum(y).backward(), ShapeError);
  EXPECT_TRUE(is_grad_enabled());
  sum(x * 2.0).backward();
  EXPECT_EQ(values(x.grad()), (std::vector<double>{2, 2}));
}

TEST(BadInput75, BackwardFromSeveralThreads) {
  Tensor shared = leaf({1, 2});
  constexpr int threads = 4, rounds = 200;
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&] {
      for (int i = 0; i < rounds; ++i) sum(shared * shared).backward();
    });
  }
  for (std::thread& thread : all) thread.join();
  EXPECT_EQ(values(shared.grad()),
            (std::vector<double>{2.0 * threads * rounds, 4.0 * threads * rounds}));
  // Several threads walk one graph: each gets the whole gradient or an error that the graph is
  // gone.
  Tensor x = leaf({1, 2});
  const Tensor y = sum(x * x);
  std::atomic<int> walked = 0, refused = 0;
  all.clear();
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&] {
      try {
        y.backward();
        ++walked;
      } catch (const ValueError&) {
        ++refused;
      }
    });
  }
  for (std::thread& thread : all) thread.join();
  EXPECT_EQ(walked + refused, threads);
  EXPECT_LE(walked, 1);
}

}  // namespace
}  // namespace extensor
