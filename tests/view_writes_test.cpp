// Writes into views while gradients are recorded: specific cases. view_programs_test.cpp has random
// ones.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "extensor/extensor.h"

namespace extensor {
namespace {

using Numbers = std::vector<double>;

Numbers values(const Tensor& x) { return x.to(float64).to_vector<double>(); }

Tensor leaf(const Numbers& numbers, const Shape& shape) {
  return from_data(numbers, shape).requires_grad_();
}
Tensor leaf(const Numbers& numbers) {
  return leaf(numbers, {static_cast<std::int64_t>(numbers.size())});
}

// The message of the ValueError that the call throws.
template <class Call>
std::string refused(const Call& call) {
  try {
    call();
  } catch (const ValueError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

// ---- histories of the base

TEST(ViewWrites, CopyIntoARowOfAnUntrackedBuffer) {
  Tensor w = leaf({1, 2});
  Tensor buffer = zeros({2, 2}, float64);
  buffer[0].copy_from(w * 2.0);
  EXPECT_TRUE(buffer.requires_grad());
  EXPECT_FALSE(buffer.is_leaf());
  (sum(buffer) + sum(w)).backward();
  EXPECT_EQ(values(w.grad()), (Numbers{3, 3}));
}

TEST(ViewWrites, AddToARowOfAnUntrackedBuffer) {
  Tensor w = leaf({1, 2});
  Tensor buffer = zeros({2, 2}, float64);
  buffer[0] += w * 2.0;
  buffer[1] -= w;
  buffer[1] += w * 5.0;
  (sum(buffer) + sum(w)).backward();
  EXPECT_EQ(values(w.grad()), (Numbers{7, 7}));
}

TEST(ViewWrites, ARecurrentNetworkThatStoresItsStates) {
  const auto run = [](bool in_place) {
    Tensor w = leaf({0.3, -0.7});
    Tensor h = full({2}, 0.1, float64);
    Tensor out = zeros({5, 2}, float64);
    std::vector<Tensor> states;
    for (std::int64_t t = 0; t < 5; ++t) {
      h = tanh(h * w + 0.2);
      if (in_place) {
        out[t].copy_from(h);
      } else {
        states.push_back(h);
      }
    }
    sum(square(in_place ? out : stack(states))).backward();
    return values(w.grad());
  };
  const Numbers got = run(true), expected = run(false);
  for (std::size_t k = 0; k < 2; ++k) EXPECT_NEAR(got[k], expected[k], 1e-14);
}

TEST(ViewWrites, ChainsOfViews) {
  Tensor w = leaf({1, 2, 3});
  Tensor buffer = ones({3, 4}, float64);
  Tensor column = buffer.transpose().slice(0, 3, {}, -2)[0].reshape({3, 1}).squeeze();  // column 3
  column *= w;
  column *= w;
  const Tensor weights = arange(12).reshape({3, 4}).to(float64);
  sum(buffer * weights).backward();
  EXPECT_EQ(values(buffer.slice(1, 3)), (Numbers{1, 4, 9}));
  EXPECT_EQ(values(w.grad()), (Numbers{2 * 1 * 3, 2 * 2 * 7, 2 * 3 * 11}));
}

TEST(ViewWrites, ViewsMadeBeforeAndAfterSeeTheHistory) {
  Tensor w = leaf({5, 6});
  Tensor buffer = zeros({2, 2}, float64);
  const Tensor row = buffer[0], turned = buffer.transpose(), other = buffer[1];
  EXPECT_FALSE(row.requires_grad());
  buffer[0].copy_from(w);
  EXPECT_TRUE(row.requires_grad());
  EXPECT_TRUE(turned.requires_grad());
  EXPECT_TRUE(other.requires_grad());
  const Tensor later = buffer.flatten().slice(0, 0, 2);
  sum(row * 2.0 + later * 3.0 + turned[0] * 10.0 + other * 100.0).backward();
  // turned[0] is (w0, 0); `other` is independent of w.
  EXPECT_EQ(values(w.grad()), (Numbers{15, 5}));
}

TEST(ViewWrites, AWriteIntoTheBaseRenewsItsViews) {
  Tensor w = leaf({1, 2});
  Tensor y = w * 2.0;
  const Tensor view = y.slice(0, 0, 1);
  y *= 3.0;
  EXPECT_EQ(values(view), Numbers{6});
  sum(view).backward();
  EXPECT_EQ(values(w.grad()), (Numbers{6, 0}));
}

TEST(ViewWrites, AFillEndsTheHistoryOfItsRegionOnly) {
  Tensor w = leaf({1, 2, 3});
  Tensor y = w * 2.0;
  Tensor view = y.slice(0, 1, 2);
  view.fill(7);
  EXPECT_TRUE(y.requires_grad());
  sum(y).backward();
  EXPECT_EQ(values(w.grad()), (Numbers{2, 0, 2}));
  Tensor z = w * 2.0;
  z.reshape({3, 1}).fill(1);
  EXPECT_FALSE(z.requires_grad());
}

TEST(ViewWrites, AProductInPlaceKeepsWhatItsGradientNeeds) {
  Tensor a = leaf({2, 3}), b = leaf({5, 7});
  Tensor y = a * 1.0;
  y *= b;
  y.slice(0, 0, 1) *= y.slice(0, 1, 2);  // the other half of the same memory
  sin_(y);
  sum(y).backward();
  // y0 = sin(a0 b0 a1 b1), y1 = sin(a1 b1)
  const double c0 = std::cos(210), c1 = std::cos(21);
  EXPECT_NEAR(values(a.grad())[0], c0 * 105, 1e-10);
  EXPECT_NEAR(values(a.grad())[1], c0 * 70 + c1 * 7, 1e-10);
  EXPECT_NEAR(values(b.grad())[0], c0 * 42, 1e-10);
  EXPECT_NEAR(values(b.grad())[1], c0 * 30 + c1 * 3, 1e-10);
}

TEST(ViewWrites, PartsFromSplitUnstackFlipAndDiagonalAreViews) {
  Tensor w = leaf({1, 2});
  Tensor y = zeros({2, 2}, float64) + sum(w) * 0.0;
  split(y, 2, 1)[0].copy_from(w.reshape({2, 1}));  // column 0
  unstack(y, 1)[1] += w * 10.0;                    // column 1
  flip(y, Axes(0))[0] *= 2.0;                      // row 1
  Tensor diagonal = einsum("ii->i", {y});
  diagonal += w * 1000.0;
  EXPECT_EQ(values(y), (Numbers{1001, 10, 4, 2040}));
  sum(y).backward();
  EXPECT_EQ(values(w.grad()), (Numbers{1 + 10 + 1000, 2 + 20 + 1000}));
}

TEST(ViewWrites, ABaseWithStridesOfItsOwn) {
  Tensor w = leaf({1, 2, 3});
  Tensor base = (zeros({3, 4}, float64) + 1.0).transpose().slice(0, {}, {}, -2).detach();
  base[1].copy_from(w * 2.0);
  base.transpose().slice(0, 2, {}, -2)[0] *= 5.0;  // column 2
  EXPECT_EQ(values(base), (Numbers{1, 1, 5, 2, 4, 30}));
  sum(base).backward();
  EXPECT_EQ(values(w.grad()), (Numbers{2, 2, 10}));
}

TEST(ViewWrites, OtherDtypes) {
  for (DType dtype : {float16, bfloat16, float32}) {
    Tensor w = ones({2}).requires_grad_();
    Tensor buffer = zeros({2, 2}, dtype);
    buffer[1].copy_from(w * 3.0);
    buffer[1] += w;
    EXPECT_EQ(buffer.dtype(), dtype);
    sum(buffer).to(float32).backward();
    EXPECT_EQ(w.grad().dtype(), float32);
    EXPECT_EQ(values(w.grad()), (Numbers{4, 4}));
  }
  Tensor integers = zeros({2, 2}, int64);
  integers[0] += 1;
  EXPECT_FALSE(integers.requires_grad());
}

TEST(ViewWrites, GradWithRespectToAWrittenViewAndItsHooks) {
  Tensor w = leaf({1, 2});
  Tensor buffer = zeros({2, 2}, float64);
  Tensor row = buffer[0];
  row.copy_from(w);
  Numbers seen;
  row.register_hook([&](const Tensor& g) {
    seen = values(g);
    return Tensor();
  });
  row.retain_grad();
  const Tensor loss = sum(row * row);
  EXPECT_EQ(values(grad(loss, {row}, {.retain_graph = true})[0]), (Numbers{2, 4}));
  loss.backward();
  EXPECT_EQ(seen, (Numbers{2, 4}));
  EXPECT_EQ(values(row.grad()), (Numbers{2, 4}));
  EXPECT_EQ(values(w.grad()), (Numbers{2, 4}));
}

TEST(ViewWrites, SecondDerivatives) {
  Tensor w = leaf({0.4, -0.9});
  Tensor buffer = ones({3, 2}, float64);
  buffer[1].copy_from(w);
  buffer.slice(0, 0, 2) *= w;  // rows w and w²
  Tensor column = buffer.transpose()[0];
  sin_(column);
  const Tensor loss = sum(buffer * buffer);
  const Tensor g = grad(loss, {w}, {.create_graph = true})[0];
  const Tensor gg = grad(sum(g), {w})[0];
  const double x = 0.4, y = -0.9;
  // sin(x)² + sin(x²)² + y² + y⁴
  EXPECT_NEAR(values(g)[0], std::sin(2 * x) + 2 * x * std::sin(2 * x * x), 1e-12);
  EXPECT_NEAR(values(g)[1], 2 * y + 4 * y * y * y, 1e-12);
  EXPECT_NEAR(values(gg)[0],
              2 * std::cos(2 * x) + 2 * std::sin(2 * x * x) + 8 * x * x * std::cos(2 * x * x),
              1e-12);
  EXPECT_NEAR(values(gg)[1], 2 + 12 * y * y, 1e-12);
}

// ---- errors

TEST(ViewWrites, AViewOfALeafIsRefusedAsTheLeafIs) {
  Tensor w = leaf({1, 2, 3, 4}, {2, 2});
  const Tensor early = w[0];
  expect_contains(refused([&] { w[0] *= 3.0; }), "leaf");
  expect_contains(refused([&] { w.transpose()[1].fill(0); }), "leaf");
  expect_contains(refused([&] { w.flatten().slice(0, 1, 3).copy_from(zeros({2}, float64)); }),
                  "leaf");
  expect_contains(refused([&] {
                    Tensor view = early;
                    sin_(view);
                  }),
                  "leaf");
  EXPECT_EQ(values(w), (Numbers{1, 2, 3, 4}));
  {
    const NoGrad off;
    w[0] *= 3.0;
  }
  EXPECT_EQ(values(w), (Numbers{3, 6, 3, 4}));
  sum(early * w[0]).backward();  // a view of a leaf follows it
  EXPECT_EQ(values(w.grad()), (Numbers{6, 12, 0, 0}));
}

TEST(ViewWrites, ViewsMadeUnderNoGrad) {
  Tensor w = leaf({1, 2});
  Tensor buffer = zeros({2, 2}, float64);
  Tensor row, of_leaf;
  {
    const NoGrad off;
    row = buffer[0];
    of_leaf = w.slice(0, 0, 1);
  }
  row.fill(4);  // nothing is recorded, so no history changes
  EXPECT_EQ(values(buffer), (Numbers{4, 4, 0, 0}));
  expect_contains(refused([&] { row.copy_from(w); }), "NoGrad");
  expect_contains(refused([&] { of_leaf.fill(0); }), "leaf");
  EXPECT_EQ(values(buffer), (Numbers{4, 4, 0, 0}));
  EXPECT_FALSE(of_leaf.requires_grad());
  buffer[1].copy_from(w);
  expect_contains(refused([&] { (void)(row * 2.0); }), "NoGrad");
  {
    const NoGrad off;
    EXPECT_EQ(values(row * 2.0), (Numbers{8, 8}));
    row.fill(5);
  }
  EXPECT_EQ(values(row.detach() * 2.0), (Numbers{10, 10}));
  sum(buffer).backward();
  EXPECT_EQ(values(w.grad()), (Numbers{1, 1}));
}

TEST(ViewWrites, AViewThatAloneHoldsItsBaseIsWrittenFreely) {
  Tensor w = leaf({1, 2, 3, 4}, {2, 2});
  Tensor x;
  {
    const NoGrad off;
    x = ones({4}, float64).reshape({2, 2});
  }
  x *= w;
  sum(x).backward();
  EXPECT_EQ(values(w.grad()), (Numbers{1, 1, 1, 1}));
}

TEST(ViewWrites, RepeatedElementsCannotBeWritten) {
  Tensor w = leaf({1, 2});
  Tensor row = zeros({2}, float64);
  Tensor wide = row.broadcast_to({3, 2});
  EXPECT_THROW(wide += w, ValueError);
  EXPECT_THROW(wide[0].broadcast_to({2, 2}).copy_from(w), ValueError);
  wide[0].copy_from(w);  // one row changes all three
  sum(wide).backward();
  EXPECT_EQ(values(w.grad()), (Numbers{3, 3}));
  Tensor alone = ones({2}, float64).broadcast_to({3, 2}).detach();
  expect_contains(refused([&] { alone[0].copy_from(w); }), "share memory");
  EXPECT_EQ(values(alone), Numbers(6, 1));
}

TEST(ViewWrites, SavedTensorsAreStillGuarded) {
  Tensor w = leaf({1, 2});
  {
    Tensor y = exp(w);
    y[0] += 1.0;
    expect_contains(refused([&] { sum(y).backward(); }), "exp_backward");
  }
  {
    Tensor y = w * 1.0;
    const Tensor z = sin(y.slice(0, 0, 1));
    y.slice(0, 1).fill(0);  // the whole memory has one version
    expect_contains(refused([&] { sum(z).backward(); }), "sin_backward");
  }
  {
    Tensor factor = ones({2}, float64);
    const Tensor y = w * factor;
    factor.detach()[0] += 1.0;
    expect_contains(refused([&] { sum(y).backward(); }), "multiply_backward");
  }
  {
    Tensor y = w * 2.0;
    y.detach().fill(0);
    expect_contains(refused([&] { (void)(y + 1.0); }), "detach()");
    expect_contains(refused([&] { (void)(y[0] + 1.0); }), "detach()");
  }
  EXPECT_FALSE(w.grad().defined());
}

// ---- leaves among views

TEST(ViewWrites, AskingAViewOrItsBaseForAGradient) {
  Tensor buffer = ones({2, 2}, float64);
  Tensor row = buffer[0].requires_grad_();
  EXPECT_TRUE(row.is_leaf());
  EXPECT_FALSE(buffer.requires_grad());
  row[0].detach().fill(3);
  sum(row * row).backward();
  EXPECT_EQ(values(row.grad()), (Numbers{6, 2}));
  Tensor base = ones({2, 2}, float64);
  const Tensor view = base[1];
  base.requires_grad_();
  EXPECT_TRUE(view.requires_grad());
  sum(view * 3.0).backward();
  EXPECT_EQ(values(base.grad()), (Numbers{0, 0, 3, 3}));
  base.requires_grad_(false);
  EXPECT_FALSE(view.requires_grad());
}

TEST(ViewWrites, AParameterThatGetsOtherMemoryLeavesItsViewsBehind) {
  nn::Linear layer(2, 2);
  const Tensor old = layer.weight.tensor().transpose();
  const Numbers before = values(old);
  layer.to(float64);
  const NoGrad off;
  layer.weight.tensor().fill(9);
  EXPECT_EQ(old.dtype(), float32);
  EXPECT_EQ(values(old), before);
}

// ---- length, memory, threads

TEST(ViewWrites, ManyWritesIntoOneBase) {
  Tensor w = leaf({1, 2});
  Tensor buffer = zeros({100, 2}, float64);
  for (std::int64_t k = 0; k < 20'000; ++k) buffer[k % 100] += w;
  sum(buffer).backward();
  EXPECT_EQ(values(w.grad()), (Numbers{20'000, 20'000}));
  for (std::int64_t k = 0; k < 200'000; ++k) buffer[k % 100].copy_from(w);
  buffer = Tensor();  // destroyed without a backward pass
}

// Gradients keep views that they read, and their results are written back: no memory may own
// itself.
TEST(ViewWrites, MemoryIsReleased) {
  double memory[6] = {1, 2, 3, 4, 5, 6};
  int released = 0;
  {
    Tensor w = leaf({1, 2});
    Tensor buffer = from_external(
        memory, float64, {3, 2}, [](void* count) { ++*static_cast<int*>(count); }, &released);
    Tensor row = buffer[0];
    for (std::int64_t t = 1; t < 3; ++t) buffer[t].copy_from(tanh(buffer[t - 1] * w));
    row *= w;
    EXPECT_TRUE(row.requires_grad());
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
}

TEST(ViewWrites, SeveralThreadsReadAViewThatIsOutOfDate) {
  for (int round = 0; round < 50; ++round) {
    Tensor w = leaf({1, 2});
    Tensor buffer = zeros({2, 2}, float64);
    const Tensor view = buffer.transpose();
    buffer[0].copy_from(w);
    std::vector<std::thread> threads;
    std::vector<Tensor> sums(4);
    for (std::size_t t = 0; t < sums.size(); ++t) {
      threads.emplace_back([&, t] { sums[t] = sum(view * 2.0); });
    }
    for (std::thread& thread : threads) thread.join();
    (sums[0] + sums[1] + sums[2] + sums[3]).backward();
    ASSERT_EQ(values(w.grad()), (Numbers{8, 8}));
  }
}

// The memory of the leaf was written before it required a gradient; views of it are saved for
// higher-order gradients.
TEST(ViewWrites, AFilledLeafHasGradientsOfEveryOrder) {
  const Tensor x = full({}, 0.5, float64).requires_grad_();
  Tensor y = sin(x);
  for (int order = 0; order <= 5; ++order) {
    ASSERT_NEAR(y.item<double>(), std::sin(0.5 + order * std::acos(-1.0) / 2), 1e-12) << order;
    y = grad(y, {x}, {.create_graph = true})[0];
  }
}

TEST(ViewWrites, AnomalyModeNamesTheWrite) {
  Tensor w = leaf({-1, 2});
  Tensor buffer = ones({2, 2}, float64);
  buffer[0] *= w;
  const AnomalyMode looking;
  expect_contains(refused([&] {
                    Tensor row = buffer[0];
                    log_(row);
                  }),
                  "log_");
}

}  // namespace
}  // namespace extensor
