// The CTC, cosine embedding and Gaussian losses and rotary embedding beyond the samples of the op
// database: closed forms, large inputs, invalid arguments.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "extensor/extensor.h"
#include "support/child_process.h"
#include "support/compare.h"
#include "support/draw.h"

namespace extensor {
namespace {

using test_support::expect_error;

// With equal probabilities, the loss counts alignments: of T steps with one label there are
// T (T + 1) / 2 alignments, each of probability C^−T.
TEST(CtcLoss, CountsAlignments) {
  for (std::int64_t steps : {1, 2, 7, 60}) {
    const std::int64_t classes = 5;
    const Tensor x = full({steps, 1, classes}, -std::log(5.0), float64);
    const double loss = ctc_loss(x, tensor({{2}}), {steps}, {1}).item<double>();
    const auto t = static_cast<double>(steps);
    EXPECT_NEAR(loss, t * std::log(5.0) - std::log(t * (t + 1) / 2), 1e-10) << steps;
  }
}

// Every step of every sample passes through some class: the gradients of a step sum to −1.
TEST(CtcLoss, GradientsOfAStepSumToMinusOne) {
  const Tensor x = log_softmax(draw::uniform({50, 3, 20}, -3, 3, 1), 2);
  const Tensor targets = randint(1, 20, {3, 12});
  const Tensor g = ctc_loss_backward(ones({3}, float64), x, targets, {50, 30, 41}, {12, 5, 9},
                                     {.reduction = Reduction::none});
  const Tensor sums = sum(g, 2);
  for (std::int64_t n = 0; n < 3; ++n) {
    const std::int64_t length = std::vector<std::int64_t>{50, 30, 41}[static_cast<std::size_t>(n)];
    for (std::int64_t t = 0; t < 50; ++t) {
      EXPECT_NEAR(sums.index({t, n}).item<double>(), t < length ? -1 : 0, 1e-9) << t << " " << n;
    }
  }
}

TEST(CtcLoss, AutogradGivesTheSameGradient) {
  const Tensor logits = draw::uniform({12, 2, 6}, -2, 2, 3).requires_grad_();
  const Tensor targets = tensor({{1, 2, 2}, {5, 1, 0}});
  nn::CTCLoss loss;
  const Tensor x = log_softmax(logits, 2);
  const Tensor of_x = grad(loss.forward(x, targets, {12, 10}, {3, 2}), {x})[0];
  EXPECT_TRUE(allclose(of_x,
                       ctc_loss_backward(ones({}, float64), x.detach(), targets, {12, 10}, {3, 2}),
                       1e-12, 1e-14));
}

TEST(CtcLoss, WithoutAnAlignmentIsInfinite) {
  const Tensor x = zeros({2, 1, 3});
  EXPECT_TRUE(std::isinf(ctc_loss(x, tensor({{1, 1}}), {2}, {2}).item<float>()));
  EXPECT_EQ(ctc_loss(x, tensor({{1, 1}}), {2}, {2}, {.zero_infinity = true}).item<float>(), 0);
  EXPECT_EQ(ctc_loss(x, tensor({{1, 1}}), {0}, {0}).item<float>(), 0);
  EXPECT_TRUE(std::isinf(ctc_loss(x, tensor({{1, 1}}), {0}, {1}).item<float>()));
  const Tensor g = ctc_loss_backward(ones({}), x, tensor({{1, 1}}), {2}, {2});
  EXPECT_EQ(count_nonzero(g).item<std::int64_t>(), 0);
}

CHILD_TEST(BadInputCtc, InvalidArguments) {
  const Tensor x = zeros({4, 2, 3}), targets = tensor({{1, 2}, {2, 1}});
  expect_error<IndexError>(
      [&] {
        ctc_loss(x, tensor({{1, 3}, {2, 1}}), {4, 4}, {2, 2});
      },
      {"ctc_loss", "3"}, {x});
  expect_error<IndexError>(
      [&] {
        ctc_loss(x, tensor({{1, -1}, {2, 1}}), {4, 4}, {2, 2});
      },
      {"ctc_loss", "-1"}, {x});
  expect_error<ValueError>(
      [&] {
        ctc_loss(x, targets, {5, 4}, {2, 2});
      },
      {"ctc_loss", "input_lengths", "5"}, {x});
  expect_error<ValueError>(
      [&] {
        ctc_loss(x, targets, {4, 4}, {2, -1});
      },
      {"ctc_loss", "target_lengths", "-1"}, {x});
  expect_error<ShapeError>([&] { ctc_loss(x, targets, {4}, {2, 2}); }, {"input_lengths"}, {x});
  expect_error<ShapeError>([&] { ctc_loss(x, tensor({1, 2}), {4, 4}, {2, 2}); }, {"targets"}, {x});
  expect_error<ShapeError>(
      [&] {
        ctc_loss(zeros({4, 3}), targets, {4, 4}, {2, 2});
      },
      {"log_probs"}, {});
  expect_error<ValueError>(
      [&] {
        ctc_loss(x, targets, {4, 4}, {2, 2}, {.blank = 3});
      },
      {"blank"}, {x});
  expect_error<DTypeError>([&] { ctc_loss(x, ones({2, 2}), {4, 4}, {2, 2}); }, {"ctc_loss"}, {x});
}

TEST(CosineEmbeddingLoss, ClosedForms) {
  const Tensor a = tensor({{3.0, 4.0}, {1.0, 0.0}, {1.0, 0.0}, {0.0, 0.0}});
  const Tensor b = tensor({{6.0, 8.0}, {0.0, 2.0}, {1.0, 1.0}, {1.0, 1.0}});
  const Tensor y = tensor({1, 1, -1, 1});
  EXPECT_TRUE(allclose(cosine_embedding_loss(a, b, y, {.reduction = Reduction::none}),
                       tensor({0.0, 1.0, std::numbers::sqrt2 / 2, 1.0}), 1e-9, 1e-9));
  const auto [of_a, of_b] = cosine_embedding_loss_backward(ones({}, float64), a, b, y);
  EXPECT_FALSE(any(isnan(of_a)).item<bool>());
  nn::CosineEmbeddingLoss layer({.margin = 0.8});
  EXPECT_NEAR(layer(a, b, y).item<double>(), 0.5, 1e-9);
}

CHILD_TEST(BadInputComposedLosses, InvalidArguments) {
  const Tensor a = ones({3, 4}), y = ones({3}, int64);
  expect_error<ShapeError>(
      [&] {
        cosine_embedding_loss(a, ones({3, 5}), y);
      },
      {"cosine_embedding_loss", "[3, 5]"}, {a});
  expect_error<ShapeError>([&] { cosine_embedding_loss(a, a, ones({4})); }, {"y is [4]"}, {a});
  expect_error<ValueError>([&] { cosine_embedding_loss(a, a, y, {.margin = std::nan("")}); },
                           {"margin"}, {a});
  expect_error<ValueError>(
      [&] {
        gaussian_nll_loss(a, a, full({3, 4}, -1.0));
      },
      {"gaussian_nll_loss", "negative"}, {a});
  expect_error<ValueError>([&] { gaussian_nll_loss(a, a, a, {.eps = 0}); }, {"eps"}, {a});
  expect_error<ShapeError>([&] { gaussian_nll_loss(a, ones({4}), a); }, {"shapes differ"}, {a});
  expect_error<ShapeError>([&] { gaussian_nll_loss(a, a, ones({2, 3, 4})); }, {"variance"}, {a});
}

TEST(GaussianNllLoss, FloorsTheVariance) {
  const Tensor x = zeros({2}, float64), y = tensor({0.0, 1.0}), v = tensor({0.0, 4.0});
  const Tensor values = gaussian_nll_loss(x, y, v, {.eps = 0.25, .reduction = Reduction::none});
  EXPECT_TRUE(allclose(values, tensor({0.5 * std::log(0.25), 0.5 * (std::log(4.0) + 0.25)})));
  // As in PyTorch, the variance has the gradient of the replaced value: 1 / (2 · 0.25).
  const auto gradients = gaussian_nll_loss_backward(ones({2}, float64), x, y, v,
                                                    {.eps = 0.25, .reduction = Reduction::none});
  EXPECT_TRUE(allclose(gradients.variance, tensor({2.0, 0.5 * (0.25 - 0.0625)})));
}

// Products of queries and keys depend on the distance of their positions alone.
TEST(RotaryEmbedding, ProductsDependOnTheDistance) {
  const Tensor q = draw::uniform({1, 16}, -1, 1, 1), k = draw::uniform({1, 16}, -1, 1, 2);
  for (bool interleaved : {false, true}) {
    const auto product = [&](std::int64_t at_q, std::int64_t at_k) {
      return sum(rotary_embedding(q, {.offset = at_q, .interleaved = interleaved}) *
                 rotary_embedding(k, {.offset = at_k, .interleaved = interleaved}))
          .item<double>();
    };
    EXPECT_NEAR(product(3, 10), product(4003, 4010), 1e-10);
    EXPECT_NEAR(product(0, 0), sum(q * k).item<double>(), 1e-12);
  }
}

// The rows of a longer sequence are those of its parts, as with a key-value cache.
TEST(RotaryEmbedding, OffsetsContinueASequence) {
  const Tensor x = draw::uniform({2, 4, 9, 8}, -1, 1, 3);
  const nn::RotaryEmbedding rotary;
  EXPECT_TRUE(compare::identical(
      rotary(x), concatenate({rotary(x.slice(2, 0, 6)), rotary(x.slice(2, 6), 6)}, 2)));
}

CHILD_TEST(BadInputRotary, InvalidArguments) {
  expect_error<ShapeError>(
      [&] {
        rotary_embedding(ones({3, 5}));
      },
      {"rotary_embedding", "even"}, {});
  expect_error<ShapeError>([&] { rotary_embedding(ones({4})); }, {"[4]"}, {});
  expect_error<ValueError>([&] { rotary_embedding(ones({3, 4}), {.base = 0}); }, {"base"}, {});
  expect_error<ValueError>([&] { rotary_embedding(ones({3, 4}), {.offset = -1}); }, {"offset"}, {});
  expect_error<DTypeError>([&] { rotary_embedding(ones({3, 4}, int64)); }, {"int64"}, {});
}

}  // namespace
}  // namespace extensor
