// Ops with separate code for second gradients, to third order and beyond.
#include <gtest/gtest.h>

#include "extensor/extensor.h"
#include "support/draw.h"

namespace extensor {
namespace {

using Tensors = std::vector<Tensor>;
using Call = std::function<Tensor(const Tensor&)>;

// Σ w · d^order f / dx^order, each derivative weighted with numbers that distinguish its elements.
Tensor weighed(const Tensor& y, unsigned seed) {
  return sum(y * draw::uniform(y.shape(), 0.5, 1.5, seed));
}

Tensor derivative(const Call& call, const Tensor& x, int order, bool create_graph) {
  Tensor y = call(x);
  for (int k = 1; k <= order; ++k) {
    y = grad(weighed(y, static_cast<unsigned>(k)), {x},
             {.create_graph = create_graph || k < order, .allow_unused = true})[0];
    if (!y.defined() || (k < order && !y.requires_grad())) return zeros_like(x);
  }
  return y;
}

// Compares every derivative up to `highest` with finite differences of the previous one.
void expect_derivatives(const char* name, const Call& call, const Tensor& point, int highest) {
  for (int order = 0; order < highest; ++order) {
    const auto result = gradcheck(
        [&](const Tensors& in) {
          return derivative(call, in[0].clone().requires_grad_(), order, false).detach();
        },
        [&](const Tensor& g, const Tensors& in) {
          Tensor x = in[0].clone().requires_grad_();
          const Tensor y = derivative(call, x, order, true);
          if (!y.requires_grad()) return Tensors{zeros_like(x)};
          Tensor found = grad({y}, {x}, {.allow_unused = true, .grad_outputs = {g}})[0];
          return Tensors{found.defined() ? found : zeros_like(x)};
        },
        {point});
    EXPECT_TRUE(result) << name << ", order " << order + 1 << ": " << result.message;
  }
}

Tensor drawn(const Shape& shape) { return draw::uniform(shape, 0.4, 1.6, 3); }

TEST(AutogradOrders, Softmax) {
  expect_derivatives(
      "softmax", [](const Tensor& x) { return softmax(x, 1); }, drawn({2, 3}), 4);
  expect_derivatives(
      "log_softmax", [](const Tensor& x) { return log_softmax(x, 0); }, drawn({3, 2}), 4);
  expect_derivatives(
      "logsumexp", [](const Tensor& x) { return logsumexp(x, 1); }, drawn({2, 3}), 4);
  expect_derivatives(
      "softmax, 0-d", [](const Tensor& x) { return softmax(x, 0) * x; }, drawn({}), 3);
}

TEST(AutogradOrders, Reductions) {
  expect_derivatives(
      "var", [](const Tensor& x) { return square(var(x, 1)); }, drawn({2, 3}), 4);
  expect_derivatives(
      "std", [](const Tensor& x) { return extensor::std(x, 1); }, drawn({2, 3}), 4);
  expect_derivatives(
      "prod", [](const Tensor& x) { return prod(x, 1); }, drawn({2, 4}), 4);
  expect_derivatives(
      "max_reduce", [](const Tensor& x) { return square(max_reduce(x, 1)); }, drawn({2, 3}), 3);
  expect_derivatives(
      "cumulative_prod", [](const Tensor& x) { return cumulative_prod(x, 1); }, drawn({2, 4}), 4);
}

// Some of the factors are 0.
TEST(AutogradOrders, ProductsWithZeros) {
  const Tensor x = tensor({{0.0, 0.7, 1.2, 0.6}, {0.0, 1.1, 0.0, 0.8}}, float64);
  expect_derivatives(
      "prod", [](const Tensor& x) { return prod(x, 1); }, x, 4);
  expect_derivatives(
      "cumulative_prod", [](const Tensor& x) { return cumulative_prod(x, 1); }, x, 4);
}

// Input and target vary together, so that mixed derivatives count too.
TEST(AutogradOrders, Losses) {
  using Loss = std::function<Tensor(const Tensor& x, const Tensor& y)>;
  const auto expect_loss = [](const char* name, const Loss& loss) {
    expect_derivatives(
        name, [&](const Tensor& x) { return loss(x.slice(0, 0, 3), x.slice(0, 3)) * sum(x); },
        tensor({0.3, 0.62, 0.85, 0.45, 0.2, 0.7}, float64), 3);
  };
  using enum Reduction;
  expect_loss("binary_cross_entropy",
              [](const Tensor& x, const Tensor& y) { return binary_cross_entropy(x, y); });
  expect_loss("binary_cross_entropy_with_logits", [](const Tensor& x, const Tensor& y) {
    return binary_cross_entropy_with_logits(x, y, sum);
  });
  expect_loss("mean_squared_error",
              [](const Tensor& x, const Tensor& y) { return mean_squared_error(x, y, none); });
  expect_loss("l1_loss", [](const Tensor& x, const Tensor& y) { return l1_loss(x, y); });
  for (double beta : {0.0, 0.3, 2.0}) {
    expect_loss("smooth_l1_loss", [beta](const Tensor& x, const Tensor& y) {
      return smooth_l1_loss(x, y, none, beta);
    });
  }
  expect_loss("huber_loss",
              [](const Tensor& x, const Tensor& y) { return huber_loss(x, y, sum, 0.3); });
  expect_loss("hinge_loss", [](const Tensor& x, const Tensor& y) { return hinge_loss(x, y); });
  for (bool log_target : {false, true}) {
    expect_loss("kl_divergence", [log_target](const Tensor& x, const Tensor& y) {
      return kl_divergence(x, y, mean, log_target);
    });
  }
  for (double gamma : {0.0, 0.5, 2.0}) {
    expect_loss("focal_loss", [gamma](const Tensor& x, const Tensor& y) {
      return focal_loss(x, y, mean, 0.25, gamma);
    });
  }
  expect_loss("triplet_margin_loss", [](const Tensor& x, const Tensor& y) {
    return triplet_margin_loss(x, y, x * y, 1, 2, 1e-6, true);
  });
  expect_loss("cross_entropy", [](const Tensor& x, const Tensor& y) {
    return cross_entropy(x, y, {}, mean, default_ignore_index, 0.1);
  });
}

TEST(AutogradOrders, Glu) {
  expect_derivatives(
      "glu", [](const Tensor& x) { return glu(x); }, drawn({2, 4}), 4);
}

TEST(AutogradOrders, Contractions) {
  expect_derivatives(
      "einsum",
      [](const Tensor& x) {
        return einsum("ii,ij,jj->j", {x, x, x});
      },
      drawn({3, 3}), 4);
  expect_derivatives(
      "tensordot", [](const Tensor& x) { return tensordot(x, x * x, 1); }, drawn({2, 2}), 3);
}

// Linear ops, combined with a product to get nonzero higher derivatives.
TEST(AutogradOrders, PositionsAndOrder) {
  const Tensor index = tensor({2, 0, 2, 1});
  const auto expect_cubed = [](const char* name, const Call& call, const Shape& shape) {
    expect_derivatives(
        name, [&](const Tensor& x) { return power(call(x), 3.0); }, drawn(shape), 3);
  };
  expect_cubed("take", [&](const Tensor& x) { return take(x, index, 0); }, {3, 2});
  expect_cubed("x[index]", [&](const Tensor& x) { return x[index]; }, {3});
  expect_cubed("x[mask]", [&](const Tensor& x) { return x[x.detach() > 0.9]; }, {3, 3});
  expect_cubed("scatter",
               [&](const Tensor& x) { return scatter(x, 0, index.slice(0, 0, 3), x * x); }, {4});
  expect_cubed("scatter_add",
               [&](const Tensor& x) { return scatter_add(x, 0, index.slice(0, 0, 3), x * x); },
               {4});
  expect_cubed("index_add", [&](const Tensor& x) { return index_add(x, 0, index, x * x, 2); }, {4});
  expect_cubed("sort", [](const Tensor& x) { return sort(x); }, {2, 4});
  expect_cubed("topk", [](const Tensor& x) { return topk(x, 2).values; }, {2, 4});
  expect_cubed("pad", [](const Tensor& x) { return pad(x, {{2, 1}}, PadMode::reflect); }, {4});
  expect_cubed("roll", [](const Tensor& x) { return roll(x, 1) * x; }, {2, 3});
  expect_cubed("tile", [](const Tensor& x) { return tile(x, {2, 2}); }, {2, 2});
  expect_cubed("tril", [](const Tensor& x) { return tril(x); }, {3, 3});
}

// Layers whose operands all depend on x, so that every input of their backward varies.
TEST(AutogradOrders, Layers) {
  const auto part = [](const Tensor& x, std::int64_t first, const Shape& shape) {
    std::int64_t count = 1;
    for (std::int64_t size : shape) count *= size;
    return x.slice(0, first, first + count).reshape(shape);
  };
  expect_derivatives(
      "conv2d",
      [&](const Tensor& x) {
        return conv2d(part(x, 0, {1, 1, 3, 3}), part(x, 5, {2, 1, 2, 2}), part(x, 0, {2}),
                      {.stride = 2, .padding = 1});
      },
      drawn({13}), 3);
  expect_derivatives(
      "conv_transpose2d",
      [&](const Tensor& x) {
        return conv_transpose2d(part(x, 0, {1, 2, 2, 1}), part(x, 1, {2, 1, 2, 2}), {},
                                {.stride = 2});
      },
      drawn({9}), 3);
  expect_derivatives(
      "max_pool2d", [&](const Tensor& x) { return power(max_pool2d(x, 2, {.stride = 1}), 3.0); },
      (arange(12) * 5 % 12).to(float64).reshape({1, 1, 3, 4}) / 10.0, 3);
  expect_derivatives(
      "layer_norm",
      [&](const Tensor& x) {
        return layer_norm(part(x, 0, {2, 3}), {3}, part(x, 1, {3}), part(x, 3, {3}), 0.1);
      },
      drawn({6}), 3);
  for (const bool training : {true, false}) {
    expect_derivatives(
        "batch_norm",
        [&](const Tensor& x) {
          return batch_norm(part(x, 0, {3, 2}), zeros({2}, float64), ones({2}, float64),
                            part(x, 1, {2}), part(x, 3, {2}), training, 0.1, 0.1);
        },
        drawn({6}), 3);
  }
  expect_derivatives(
      "scaled_dot_product_attention",
      [&](const Tensor& x) {
        return scaled_dot_product_attention(part(x, 0, {2, 2}), part(x, 1, {3, 2}),
                                            part(x, 2, {3, 1}), part(x, 0, {2, 3}));
      },
      drawn({7}), 3);
  expect_derivatives(
      "rnn_layer",
      [&](const Tensor& x) {
        return rnn_layer(part(x, 0, {2, 1, 1}), {part(x, 1, {1, 1}), part(x, 2, {1, 1})}).output;
      },
      drawn({3}), 3);
  expect_derivatives(
      "lstm_layer",
      [&](const Tensor& x) {
        const RecurrentWeights weights{part(x, 0, {4, 1}), part(x, 1, {4, 1}), part(x, 2, {4}), {}};
        const auto result =
            lstm_layer(part(x, 3, {2, 1, 1}), weights, part(x, 0, {1, 1}), part(x, 5, {1, 1}));
        return result.output + result.cell;
      },
      drawn({6}), 3);
}

// Indices that were changed after the forward are an error, not a wrong gradient.
TEST(AutogradOrders, ChangedIndices) {
  Tensor x = drawn({3}).requires_grad_();
  Tensor index = tensor({2, 0});
  const Tensor y = sum(take(x, index, 0));
  index.fill(1);
  EXPECT_THROW(y.backward(), ValueError);
  Tensor mask = tensor({true, false, true});
  const Tensor z = sum(masked_select(x, mask));
  mask.fill(true);  // its positions were determined before
  EXPECT_EQ(grad(z, {x})[0].to_vector<double>(), (std::vector<double>{1, 0, 1}));
}

// Operands of dtypes that promote get gradients in their own dtypes; integers get none.
TEST(AutogradOrders, MixedDtypes) {
  Tensor x = drawn({3}).to(float32).requires_grad_();
  Tensor source = drawn({2}).requires_grad_();
  const Tensor index = tensor({2, 0});
  for (const Tensor& y : {scatter(x, 0, index, source), scatter_add(x, 0, index, source),
                          index_add(x, 0, index, source)}) {
    EXPECT_EQ(y.dtype(), float64);
    const Tensors found = grad(sum(y), {x, source});
    EXPECT_EQ(found[0].dtype(), float32);
    EXPECT_EQ(found[1].dtype(), float64);
    EXPECT_EQ(found[1].to_vector<double>(), (std::vector<double>{1, 1}));
  }
  const Tensor into_integers = scatter(zeros({3}, int64), 0, index, source);
  EXPECT_EQ(grad(sum(into_integers), {source})[0].to_vector<double>(), (std::vector<double>{1, 1}));
}

}  // namespace
}  // namespace extensor
