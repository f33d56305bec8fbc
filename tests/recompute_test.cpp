// checkpoint(): the backward pass computes the function again, under the conditions of the first
// call.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "extensor/extensor.h"

namespace extensor {
namespace {

using Tensors = std::vector<Tensor>;
using Numbers = std::vector<double>;

Numbers values(const Tensor& x) { return x.to(float64).to_vector<double>(); }

Tensor leaf(const Numbers& numbers) {
  return from_data(numbers, {static_cast<std::int64_t>(numbers.size())}).requires_grad_();
}

TEST(Recompute, UnderTheAutocastOfTheFirstCall) {
  const Tensor w = ones({4, 4}).requires_grad_();
  std::vector<std::optional<DType>> modes;
  std::vector<DType> dtypes;
  const auto layer = [&](const Tensors& in) {
    modes.push_back(autocast_dtype());
    const Tensor y = matmul(in[0], w);
    dtypes.push_back(y.dtype());
    return Tensors{y};
  };
  Tensor x = ones({2, 4}).requires_grad_();
  const auto run = [&](bool half) {
    Tensor y;
    {
      const Autocast autocast(float16, half);
      y = checkpoint(layer, {x})[0];
    }
    sum(y.to(float32)).backward();
    EXPECT_FALSE(autocast_dtype().has_value());
  };
  run(true);
  EXPECT_EQ(modes, (std::vector<std::optional<DType>>(2, float16)));
  EXPECT_EQ(dtypes, (std::vector<DType>(2, float16)));
  modes.clear();
  Tensor y = checkpoint(layer, {x})[0];
  {
    const Autocast autocast;  // has no effect in the backward pass
    sum(y).backward();
  }
  EXPECT_EQ(modes, (std::vector<std::optional<DType>>(2)));
}

TEST(Recompute, TheGeneratorIsPutBackWhenTheFunctionThrows) {
  manual_seed(5);
  bool again = false;
  Tensor x = leaf({1, 2});
  const Tensor y = checkpoint(
      [&](const Tensors& in) {
        const Tensor noise = rand({2}, float64);
        if (std::exchange(again, true)) throw std::runtime_error("no");
        return Tensors{in[0] * noise};
      },
      {x})[0];
  (void)rand({7});
  const std::uint64_t offset = default_generator().offset();
  EXPECT_THROW(sum(y).backward(), std::runtime_error);
  EXPECT_EQ(default_generator().offset(), offset);
}

TEST(Recompute, GradLeavesParametersAlone) {
  Tensor w = leaf({3, 4}), x = leaf({1, 2}), unused = leaf({5, 6});
  const auto layer = [&](const Tensors& in) { return Tensors{in[0] * w * w, in[0] * unused}; };
  const auto loss = [&] { return sum(checkpoint(layer, {x * 2.0})[0]) + sum(w); };
  EXPECT_EQ(values(grad(loss(), {x})[0]), (Numbers{18, 32}));
  EXPECT_FALSE(w.grad().defined());
  // The requested inputs get the gradients through the function and outside it.
  const auto both = grad(loss(), {w, x});
  EXPECT_EQ(values(both[0]), (Numbers{2 * 2 * 3 + 1, 4 * 2 * 4 + 1}));
  EXPECT_EQ(values(both[1]), (Numbers{18, 32}));
  EXPECT_FALSE(w.grad().defined());
  EXPECT_THROW(grad(loss(), {unused}), ValueError);
  EXPECT_FALSE(grad(loss(), {unused}, {.allow_unused = true})[0].defined());
  loss().backward();
  EXPECT_EQ(values(w.grad()), (Numbers{13, 33}));
  EXPECT_FALSE(unused.grad().defined());
}

TEST(Recompute, ASecondCallWithOtherOutputsIsRefused) {
  Tensor x = leaf({1, 2});
  const auto refused = [&](const TensorFunction& first, const TensorFunction& second) {
    int calls = 0;
    const Tensors y =
        checkpoint([&](const Tensors& in) { return calls++ == 0 ? first(in) : second(in); }, {x});
    Tensor loss = zeros({}, float64);
    for (const Tensor& each : y) loss = loss + sum(each);
    try {
      loss.backward();
    } catch (const ValueError& error) {
      EXPECT_NE(std::string(error.what()).find("checkpoint: "), std::string::npos) << error.what();
      EXPECT_FALSE(x.grad().defined());
      return true;
    }
    return false;
  };
  const auto two = [](const Tensors& in) { return Tensors{in[0], in[0] * 2.0}; };
  const auto one = [](const Tensors& in) { return Tensors{in[0] * 1.0}; };
  const auto three = [](const Tensors& in) { return Tensors{in[0], in[0], in[0]}; };
  const auto wide = [](const Tensors& in) { return Tensors{in[0], in[0].reshape({1, 2})}; };
  const auto narrow = [](const Tensors& in) { return Tensors{in[0], in[0].to(float32)}; };
  const auto nothing = [](const Tensors& in) { return Tensors{in[0], Tensor()}; };
  EXPECT_TRUE(refused(two, one));
  EXPECT_TRUE(refused(two, three));
  EXPECT_TRUE(refused(two, wide));
  EXPECT_TRUE(refused(two, narrow));
  EXPECT_TRUE(refused(two, nothing));
  EXPECT_FALSE(refused(two, two));
}

TEST(Recompute, AFunctionThatHoldsAnInputOfTheOuterOne) {
  Tensor x = leaf({2, 3});
  const auto outer = [](const Tensors& in) {
    const Tensor held = in[0];
    return checkpoint([held](const Tensors& inner) { return Tensors{inner[0] * held}; },
                      {in[0] * held});
  };
  sum(checkpoint(outer, {x * 1.0})[0]).backward();
  EXPECT_EQ(values(x.grad()), (Numbers{12, 27}));
  EXPECT_EQ(values(grad(sum(checkpoint(outer, {x * 1.0})[0]), {x})[0]), (Numbers{12, 27}));
}

TEST(Recompute, NestedAndOfEveryOrder) {
  const Tensor w = leaf({0.5, -0.3});
  const auto inner = [&](const Tensors& in) { return Tensors{tanh(in[0] * w)}; };
  const auto outer = [&](const Tensors& in) {
    return Tensors{sin(checkpoint(inner, {in[0] * 2.0})[0]) * w};
  };
  const auto plain = [&](const Tensors& in) { return Tensors{sin(inner({in[0] * 2.0})[0]) * w}; };
  const auto derivatives = [&](bool recomputed) {
    Tensor x = leaf({0.2, 0.7});
    Tensor y = sum(recomputed ? checkpoint(outer, {x})[0] : plain({x})[0]);
    std::vector<Numbers> all{values(y)};
    for (int order = 0; order < 3; ++order) {
      const auto g = grad(y, {x, w}, {.create_graph = true});
      all.push_back(values(g[0]));
      all.push_back(values(g[1]));
      y = sum(g[0] * g[0]) + sum(g[1]);
    }
    return all;
  };
  const auto got = derivatives(true), expected = derivatives(false);
  for (std::size_t k = 0; k < expected.size(); ++k) {
    for (std::size_t i = 0; i < expected[k].size(); ++i) {
      EXPECT_NEAR(got[k][i], expected[k][i], 1e-12) << k;
    }
  }
}

}  // namespace
}  // namespace extensor
