// Recorded layers and losses beyond the op database's samples: gradients of only some inputs, saved
// tensors, mixed dtypes, third order.
#include <gtest/gtest.h>

#include <cmath>

#include "extensor/extensor.h"
#include "op_database/op_database.h"

namespace extensor {
namespace {

using op_database::sample_integers;
using op_database::sample_uniform;

std::vector<double> values(const Tensor& x) { return x.to(float64).to_vector<double>(); }

Tensor drawn(const Shape& shape, std::uint64_t seed) { return sample_uniform(shape, -1, 1, seed); }
Tensor leaf(const Shape& shape, std::uint64_t seed) { return drawn(shape, seed).requires_grad_(); }

void expect_near(const Tensor& got, const Tensor& expected, double tolerance = 1e-12) {
  ASSERT_TRUE(got.defined());
  ASSERT_EQ(got.shape(), expected.shape());
  EXPECT_EQ(got.dtype(), expected.dtype());
  const auto a = values(got), b = values(expected);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance) << i;
}

TEST(RecordedConvolution, AFirstLayerHasNoDataGradient) {
  const Tensor x = drawn({2, 3, 5, 6}, 1), g = drawn({2, 4, 3, 4}, 2);
  Tensor weight = leaf({4, 3, 3, 3}, 3), bias = drawn({4}, 4).to(float32).requires_grad_();
  const auto gradients = grad({conv2d(x, weight, bias)}, {weight, bias}, {.grad_outputs = {g}});
  const auto expected = conv2d_backward(g, x, weight.detach());
  expect_near(gradients[0], expected.weight);
  expect_near(gradients[1], expected.bias.to(float32), 1e-6);
}

TEST(RecordedConvolution, AFrozenWeightDoesNotKeepX) {
  const Tensor weight = drawn({4, 3, 3, 3}, 3), g = leaf({2, 4, 3, 4}, 2);
  Tensor x = leaf({2, 3, 5, 6}, 1);
  const Tensor twice = x * 1.0, y = conv2d(twice, weight);
  {
    // The backward does not read it.
    const NoGrad off;
    Tensor memory = twice.detach();
    memory.fill(0);
  }
  const Tensor gradient = grad({y}, {x}, {.create_graph = true, .grad_outputs = {g}})[0];
  expect_near(gradient.detach(), conv2d_backward(g.detach(), drawn(x.shape(), 1), weight).x);
  const Tensor v = drawn(x.shape(), 5);
  expect_near(grad({gradient}, {g}, {.grad_outputs = {v}})[0], conv2d(v, weight));
}

TEST(RecordedLoss, OnlyTheTargetAsks) {
  const Tensor x = drawn({7}, 1), g = drawn({7}, 2);
  Tensor y = leaf({7}, 3);
  const Tensor loss = mean_squared_error(x, y, Reduction::none);
  expect_near(grad({loss}, {y}, {.grad_outputs = {g}})[0], 2 * g * (y.detach() - x));
  // Also for an input of integers, to second order.
  const Tensor integers = sample_integers({7}, -3, 3, 4);
  const Tensor first =
      grad(mean_squared_error(integers, y, Reduction::sum), {y}, {.create_graph = true})[0];
  expect_near(first.detach(), 2 * (y.detach() - integers.to(float64)));
  expect_near(grad({first}, {y}, {.grad_outputs = {g}})[0], 2 * g);
}

TEST(RecordedLoss, ThirdDerivativeOfTheLogistic) {
  Tensor x = leaf({9}, 1);
  const Tensor y = ones({9}, float64);
  Tensor derivative = binary_cross_entropy_with_logits(x, y, Reduction::sum);
  for (int order = 0; order < 3; ++order) {
    derivative = grad(sum(derivative), {x}, {.create_graph = true})[0];
  }
  const Tensor p = sigmoid(x.detach());
  expect_near(derivative.detach(), p * (1 - p) * (1 - 2 * p));
}

TEST(RecordedLoss, CrossEntropyOfStatisticsIsRecordedToo) {
  Tensor logits = leaf({5, 4}, 1);
  const Tensor labels = sample_integers({5}, 0, 4, 2);
  const auto [loss, statistics] = cross_entropy_with_statistics(logits, labels);
  EXPECT_FALSE(statistics.requires_grad());
  expect_near(grad(loss, {logits})[0],
              cross_entropy_backward(ones({}, float64), logits.detach(), labels).first);
}

TEST(RecordedBatchNorm, RunningStatisticsMoveOnceAndMayMoveOn) {
  for (const bool training : {true, false}) {
    Tensor x = leaf({6, 3}, 1), weight = leaf({3}, 2), bias = leaf({3}, 3);
    Tensor mean = drawn({3}, 4), var = abs(drawn({3}, 5)) + 0.5;
    Tensor plain_mean = mean.clone(), plain_var = var.clone();
    const Tensor g = drawn({6, 3}, 6);
    const Tensor y = batch_norm(x, mean, var, weight, bias, training);
    const auto expected = batch_norm_backward(g, x.detach(), plain_mean, plain_var, weight.detach(),
                                              bias.detach(), training);
    const NoGrad off;
    batch_norm(x, plain_mean, plain_var, weight, bias, training);
    expect_near(mean, plain_mean);
    expect_near(var, plain_var);
    mean.fill(7);
    var.fill(7);
    const auto got = grad({y}, {x, weight, bias}, {.grad_outputs = {g}});
    expect_near(got[0], expected.x);
    expect_near(got[1], expected.weight);
    expect_near(got[2], expected.bias);
  }
}

TEST(RecordedNorm, FrozenParameters) {
  Tensor x = leaf({4, 6}, 1);
  const Tensor weight = drawn({6}, 2), bias = drawn({6}, 3), g = drawn({4, 6}, 4);
  expect_near(grad({layer_norm(x, {6}, weight, bias)}, {x}, {.grad_outputs = {g}})[0],
              layer_norm_backward(g, x.detach(), {6}, weight, bias).x);
  // The gradients of parameters for an input of integers.
  const Tensor integers = sample_integers({4, 6}, -3, 3, 5);
  Tensor w = drawn({6}, 2).to(float32).requires_grad_();
  expect_near(grad({layer_norm(integers, {6}, w)}, {w}, {.grad_outputs = {g.to(float32)}})[0],
              layer_norm_backward(g.to(float32), integers.to(float32), {6}, w.detach()).weight,
              1e-6);
}

TEST(RecordedDropout, TheSameElementsAreDroppedOnTheWayBack) {
  Tensor x = (abs(drawn({100}, 1)) + 1).requires_grad_();
  Generator generator(5);
  const Tensor y = dropout(x, 0.4, true, generator).output;
  const Tensor gradient = grad(sum(y), {x})[0];
  expect_near(gradient * x.detach(), y.detach());
  EXPECT_TRUE(dropout(x, 0.4, false).output.requires_grad());
  expect_near(grad(sum(dropout(x, 1.0).output), {x})[0], zeros({100}, float64));
}

TEST(RecordedEmbedding, SecondOrderSkipsThePaddingRow) {
  const Tensor ids = from_data(std::vector<std::int64_t>{2, 0, 2, 3});
  Tensor g = leaf({4, 3}, 1);
  const Tensor v = drawn({4, 3}, 2);
  const Tensor gradient = grad({embedding_backward(g, ids, 4, -2)}, {g}, {.grad_outputs = {v}})[0];
  const Tensor expected = concatenate(
      {zeros({1, 3}, float64), v.slice(0, 0, 1), zeros({1, 3}, float64), v.slice(0, 3, 4)});
  expect_near(gradient, expected);
}

TEST(RecordedAttention, TheForwardsLogsumexpIsUsed) {
  Tensor q = leaf({2, 5, 4}, 1), k = leaf({2, 6, 4}, 2), v = leaf({2, 6, 3}, 3);
  const Tensor g = drawn({2, 5, 3}, 4);
  const auto result = scaled_dot_product_attention_with_logsumexp(q, k, v, {}, true);
  EXPECT_FALSE(result.logsumexp.requires_grad());
  const auto expected =
      scaled_dot_product_attention_backward(g, q.detach(), k.detach(), v.detach(), {}, true, {});
  const auto got = grad({result.output}, {q, v}, {.retain_graph = true, .grad_outputs = {g}});
  expect_near(got[0], expected.q);
  expect_near(got[1], expected.v);
  Tensor moved = result.logsumexp;
  moved.fill(0);
  EXPECT_THROW(grad({result.output}, {q}, {.grad_outputs = {g}}), ValueError);
}

TEST(AutogradLayers, ThePaddingRowOfAnEmbeddingStays) {
  const nn::Embedding table(5, 3, {.padding_idx = -1});
  const Tensor weight = table.weight;
  EXPECT_EQ(max_reduce(abs(weight[4])).item<float>(), 0);
  sum(table(tensor({0, 4, 4, 2}))).backward();
  const Tensor rows = sum(weight.grad(), 1);
  EXPECT_EQ(rows.to_vector<float>(), (std::vector<float>{3, 0, 3, 0, 0}));
  EXPECT_THROW(nn::Embedding(5, 3, {.padding_idx = 5}), ValueError);
}

}  // namespace
}  // namespace extensor
