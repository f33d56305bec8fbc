// Invalid input to losses, embedding and dropout.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/check.h"
#include "support/child_process.h"

namespace {

using namespace extensor;
using test_support::expect_error;

constexpr Reduction every_reduction[] = {Reduction::mean, Reduction::sum, Reduction::none};

CHILD_TEST(BadInputIndexing, Item43EmbeddingIdOutOfRange) {
  const Tensor weight = ones({4, 3});
  for (std::int64_t id : {std::int64_t{4}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    const std::string text = std::to_string(id);
    const Tensor alone = scalar(id), hidden = from_data(std::vector<std::int64_t>{0, 3, id, 1});
    expect_error<IndexError>([&] { embedding(weight, alone); },
                             {"embedding", "ids", text, "4 rows"}, {weight, alone});
    expect_error<IndexError>([&] { embedding(weight, hidden); }, {"embedding", "ids", text},
                             {weight, hidden});
  }
  const Tensor huge = full({2}, std::numeric_limits<std::uint64_t>::max(), uint64);
  expect_error<IndexError>([&] { embedding(weight, huge); }, {"ids", "18446744073709551615"},
                           {huge});
  expect_error<IndexError>([&] { embedding(zeros({0, 3}), tensor({0})); }, {"0 rows"});
  const Tensor real = tensor({0.0, 1.0}), truth = ones({2}, bool_);
  expect_error<DTypeError>([&] { embedding(weight, real); }, {"embedding", "ids", "float32"},
                           {real});
  expect_error<DTypeError>([&] { embedding(weight, truth); }, {"embedding", "ids", "bool"},
                           {truth});
  expect_error<ShapeError>([&] { embedding(ones({4}), tensor({0})); },
                           {"embedding", "weight", "[4]"});
  EXPECT_EQ(embedding(weight, tensor({3, 0})).to_vector<float>(), std::vector<float>(6, 1));
}

CHILD_TEST(BadInputIndexing, Item44EmbeddingIdOutOfRangeInTheBackward) {
  const Tensor g = ones({4, 3});
  for (std::int64_t id : {std::int64_t{4}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    const Tensor ids = from_data(std::vector<std::int64_t>{0, 3, id, 1});
    expect_error<IndexError>([&] { embedding_backward(g, ids, 4); },
                             {"embedding_backward", "ids", std::to_string(id)}, {g, ids});
  }
  const Tensor ids = tensor({0, 3, 1, 1});
  expect_error<ValueError>([&] { embedding_backward(g, ids, -1); }, {"embedding_backward", "-1"},
                           {g, ids});
  expect_error<IndexError>([&] { embedding_backward(g, ids, 0); }, {"embedding_backward"},
                           {g, ids});
  // A table of an impossible size.
  expect_error<ShapeError>([&] { embedding_backward(g, ids, INT64_MAX / 2); },
                           {"embedding_backward"}, {g, ids});
  EXPECT_EQ(embedding_backward(g, ids, 4).to_vector<float>(),
            (std::vector<float>{1, 1, 1, 2, 2, 2, 0, 0, 0, 1, 1, 1}));
}

CHILD_TEST(BadInputIndexing, Item45EmbeddingOfWidthZero) {
  // An empty dimension is valid, and the ids are still checked.
  const Tensor weight = zeros({4, 0}), ids = tensor({{0, 3}, {1, 1}});
  EXPECT_EQ(embedding(weight, ids).shape(), (Shape{2, 2, 0}));
  EXPECT_EQ(embedding_backward(zeros({2, 2, 0}), ids, 4).shape(), (Shape{4, 0}));
  const Tensor wrong = tensor({{0, 3}, {1, 4}});
  expect_error<IndexError>([&] { embedding(weight, wrong); }, {"embedding", "4"}, {weight, wrong});
  expect_error<IndexError>(
      [&] {
        embedding_backward(zeros({2, 2, 0}), wrong, 4);
      },
      {"embedding_backward", "4"}, {wrong});
}

CHILD_TEST(BadInputLayers, Item64DropoutProbabilityOutsideOfZeroToOne) {
  const Tensor x = ones({5});
  Generator generator(1);
  for (double p : {-0.1, 1.1, -1e300, HUGE_VAL, std::nan("")}) {
    for (bool training : {true, false}) {
      expect_error<ValueError>([&] { dropout(x, p, training, generator); }, {"dropout", "p is"},
                               {x});
    }
    expect_error<ValueError>(
        [&] {
          dropout_backward(x, DropoutMask{{}, {5}, p});
        },
        {"dropout_backward", "p is"}, {x});
  }
  EXPECT_EQ(generator.offset(), 0u);
  EXPECT_EQ(sum(dropout(x, 0).output).item<float>(), 5);
  EXPECT_EQ(sum(dropout(x, 1).output).item<float>(), 0);
}

CHILD_TEST(BadInputLayers, Item65ClassIndexOutOfRange) {
  const Tensor logits = ones({3, 4});
  for (std::int64_t index : {std::int64_t{4}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    const Tensor target = from_data(std::vector<std::int64_t>{0, index, -100});
    const std::string text = std::to_string(index);
    for (Reduction reduction : every_reduction) {
      const Tensor g = ones(reduction == Reduction::none ? Shape{3} : Shape{});
      expect_error<IndexError>([&] { cross_entropy(logits, target, {}, reduction); },
                               {"cross_entropy", "target", text, "4 classes"}, {logits, target});
      expect_error<IndexError>([&] { nll_loss(logits, target, {}, reduction); },
                               {"nll_loss", "target", text}, {logits, target});
      expect_error<IndexError>([&] { cross_entropy_backward(g, logits, target, {}, reduction); },
                               {"cross_entropy_backward", text}, {g, logits, target});
      expect_error<IndexError>([&] { nll_loss_backward(g, logits, target, {}, reduction); },
                               {"nll_loss_backward", text}, {g, logits, target});
    }
  }
  // With another ignore_index, −100 is out of range like any other.
  const Tensor target = tensor({0, -100, 1});
  expect_error<IndexError>([&] { cross_entropy(logits, target, {}, Reduction::mean, -1); },
                           {"cross_entropy", "-100"}, {target});
  const Tensor narrow = tensor({0, 127, 1}, int8);
  expect_error<IndexError>([&] { cross_entropy(logits, narrow); }, {"127"}, {narrow});
  EXPECT_NEAR(cross_entropy(logits, target).item<float>(), std::log(4.0), 1e-6);
}

CHILD_TEST(BadInputLayers, Item66EveryTargetIgnored) {
  const Tensor logits = ones({3, 4}), target = full({3}, -100, int64);
  for (DType dtype : {float16, bfloat16, float32, float64}) {
    const Tensor x = logits.to(dtype);
    for (double smoothing : {0.0, 0.3}) {
      for (Reduction reduction : every_reduction) {
        const Tensor loss = cross_entropy(x, target, {}, reduction, -100, smoothing);
        EXPECT_TRUE(all(equal(loss, 0)).item<bool>());
        const Tensor grad =
            cross_entropy_backward(ones_like(loss), x, target, {}, reduction, -100, smoothing)
                .first;
        EXPECT_TRUE(all(equal(grad, 0)).item<bool>());
        EXPECT_EQ(grad.shape(), x.shape());
      }
    }
    EXPECT_EQ(nll_loss(x, target).item<float>(), 0);
    EXPECT_TRUE(all(equal(nll_loss_backward(ones({}), x, target), 0)).item<bool>());
  }
  // Kept, but with a weight of 0.
  const Tensor weight = zeros({4});
  EXPECT_EQ(cross_entropy(logits, tensor({0, 1, 2}), weight).item<float>(), 0);
  EXPECT_EQ(cross_entropy(zeros({0, 4}), zeros({0}, int64)).item<float>(), 0);
  // The next good call.
  EXPECT_NEAR(cross_entropy(logits, tensor({0, 1, -100})).item<float>(), std::log(4.0), 1e-6);
}

// Labels of 1 and 2, or logits passed as probabilities, would be clamped and give a plausible loss.
CHILD_TEST(BadInputLosses, BinaryCrossEntropyOutsideZeroToOne) {
  const Tensor one = ones({});
  for (DType dtype : {float16, bfloat16, float32, float64}) {
    for (std::int64_t count : {3, 5000}) {  // in one chunk, and in many
      const Tensor good = full({count}, 0.5, dtype);
      for (double value : {-0.25, 1.5, -1e-3, 8.0}) {
        Tensor bad = good.clone();
        bad[count - 1].fill(value);
        const std::string text = detail::message(bad[count - 1].item<double>());
        const std::string place = detail::message("at element ", count - 1);
        for (Reduction reduction : every_reduction) {
          expect_error<ValueError>([&] { binary_cross_entropy(bad, good, reduction); },
                                   {"binary_cross_entropy: p is ", text, place, "0 to 1"},
                                   {bad, good});
          expect_error<ValueError>([&] { binary_cross_entropy(good, bad, reduction); },
                                   {"binary_cross_entropy: y is ", text, place}, {bad, good});
        }
        expect_error<ValueError>([&] { binary_cross_entropy_backward(one, bad, good); },
                                 {"binary_cross_entropy_backward: p is ", text}, {bad, good});
      }
    }
  }
  const Tensor p = full({2, 2}, 0.5), labels = tensor({{0, 1}, {2, 1}});
  expect_error<ValueError>([&] { binary_cross_entropy(p, labels); }, {"y is 2 at element 2"});
  // The recorded form.
  Tensor w = full({2}, 1.5).requires_grad_();
  expect_error<ValueError>([&] { binary_cross_entropy(w, ones({2})); }, {"p is 1.5 at element 0"});
  // Both ends are allowed, and NaN is not rejected: it shows in the loss.
  EXPECT_TRUE(
      std::isfinite(binary_cross_entropy(tensor({0.0, 1.0}), tensor({1, 0})).item<float>()));
  EXPECT_TRUE(std::isnan(binary_cross_entropy(full({1}, std::nan("")), ones({1})).item<float>()));
  EXPECT_EQ(binary_cross_entropy(zeros({0}), zeros({0}), Reduction::sum).item<float>(), 0);
  // A logit and its target may be any number.
  EXPECT_EQ(binary_cross_entropy_with_logits(tensor({0.0}), tensor({2.0})).item<float>(),
            binary_cross_entropy_with_logits(tensor({0.0}), tensor({-1.0})).item<float>());
}

CHILD_TEST(BadInputGradients, Item79LossGradientsOfTheWrongShape) {
  const Tensor x = full({2, 3}, 0.5), y = full({2, 3}, 0.25), labels = tensor({0, 2});
  using Elementwise = std::function<void(const Tensor& g, Reduction)>;
  const std::pair<const char*, Elementwise> elementwise[] = {
      {"binary_cross_entropy_backward",
       [&](const Tensor& g, Reduction r) { binary_cross_entropy_backward(g, x, y, r); }},
      {"binary_cross_entropy_with_logits_backward",
       [&](const Tensor& g, Reduction r) {
         binary_cross_entropy_with_logits_backward(g, x, y, r);
       }},
      {"mean_squared_error_backward",
       [&](const Tensor& g, Reduction r) { mean_squared_error_backward(g, x, y, r); }},
      {"l1_loss_backward", [&](const Tensor& g, Reduction r) { l1_loss_backward(g, x, y, r); }},
      {"smooth_l1_loss_backward",
       [&](const Tensor& g, Reduction r) { smooth_l1_loss_backward(g, x, y, r); }},
      {"huber_loss_backward",
       [&](const Tensor& g, Reduction r) { huber_loss_backward(g, x, y, r); }},
      {"hinge_loss_backward",
       [&](const Tensor& g, Reduction r) { hinge_loss_backward(g, x, y, r); }},
      {"kl_divergence_backward",
       [&](const Tensor& g, Reduction r) { kl_divergence_backward(g, x, y, r); }},
      {"focal_loss_backward",
       [&](const Tensor& g, Reduction r) { focal_loss_backward(g, x, y, r); }},
  };
  for (const auto& [name, call] : elementwise) {
    SCOPED_TRACE(name);
    for (const Shape& wrong : {Shape{2, 3}, Shape{1}, Shape{2}}) {
      const Tensor g = ones(wrong);
      expect_error<ShapeError>([&] { call(g, Reduction::mean); }, {name, "grad_output"}, {g, x, y});
      expect_error<ShapeError>([&] { call(g, Reduction::sum); }, {name, "grad_output"}, {g, x, y});
    }
    for (const Shape& wrong : {Shape{}, Shape{6}, Shape{3, 2}, Shape{1, 3}, Shape{2, 3, 1}}) {
      const Tensor g = ones(wrong);
      expect_error<ShapeError>([&] { call(g, Reduction::none); }, {name, "grad_output", "[2, 3]"},
                               {g});
    }
    const Tensor integers = ones({}, int64);
    expect_error<DTypeError>([&] { call(integers, Reduction::mean); }, {name, "grad_output"},
                             {integers});
  }
  using Rows = std::function<void(const Tensor& g, Reduction)>;
  const std::pair<const char*, Rows> rows[] = {
      {"cross_entropy_backward",
       [&](const Tensor& g, Reduction r) { cross_entropy_backward(g, x, labels, {}, r); }},
      {"cross_entropy_backward",
       [&](const Tensor& g, Reduction r) { cross_entropy_backward(g, x, y, {}, r); }},
      {"nll_loss_backward",
       [&](const Tensor& g, Reduction r) { nll_loss_backward(g, x, labels, {}, r); }},
      {"triplet_margin_loss_backward",
       [&](const Tensor& g, Reduction r) {
         triplet_margin_loss_backward(g, x, y, x, 1, 2, 1e-6, false, r);
       }},
  };
  for (const auto& [name, call] : rows) {
    SCOPED_TRACE(name);
    for (const Shape& wrong : {Shape{}, Shape{3}, Shape{2, 3}, Shape{2, 1}, Shape{1}}) {
      const Tensor g = ones(wrong);
      expect_error<ShapeError>([&] { call(g, Reduction::none); }, {name, "grad_output", "[2]"},
                               {g});
    }
    for (const Shape& wrong : {Shape{2}, Shape{1}, Shape{2, 3}}) {
      const Tensor g = ones(wrong);
      expect_error<ShapeError>([&] { call(g, Reduction::mean); }, {name, "grad_output"}, {g});
    }
  }
}

CHILD_TEST(BadInputGradients, Item79EmbeddingAndDropoutGradientsOfTheWrongShape) {
  const Tensor ids = tensor({{0, 1, 2}, {3, 0, 1}});
  for (const Shape& wrong :
       {Shape{}, Shape{3}, Shape{2, 3}, Shape{3, 2, 4}, Shape{6, 4}, Shape{2, 3, 4, 5}}) {
    const Tensor g = ones(wrong);
    expect_error<ShapeError>([&] { embedding_backward(g, ids, 4); },
                             {"embedding_backward", "grad_output"}, {g, ids});
  }
  const Tensor integers = ones({2, 3, 4}, int64);
  expect_error<DTypeError>([&] { embedding_backward(integers, ids, 4); }, {"embedding_backward"},
                           {integers});
  const DropoutMask mask = dropout(ones({2, 3}), 0.5).mask;
  for (const Shape& wrong : {Shape{}, Shape{6}, Shape{3, 2}, Shape{2, 3, 1}}) {
    const Tensor g = ones(wrong);
    expect_error<ShapeError>([&] { dropout_backward(g, mask); },
                             {"dropout_backward", "grad_output", "[2, 3]"}, {g});
  }
}

}  // namespace
