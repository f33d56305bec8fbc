// Functions and layers that take their arguments as one struct, the same for both.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "extensor/extensor.h"

namespace {

namespace nn = ext::nn;
using ext::Reduction;
using ext::Shape;
using ext::Tensor;
using Values = std::vector<double>;

Values values(const Tensor& x) { return x.to(ext::float64).to_vector<double>(); }

Tensor drawn(const Shape& shape, std::uint64_t seed) {
  ext::Generator generator(seed);
  return ext::randn(shape, ext::float64, generator);
}

void expect_same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].defined(), b[i].defined()) << i;
    if (!a[i].defined()) continue;
    EXPECT_EQ(values(a[i]), values(b[i])) << i;
  }
}

TEST(CallsOptions, ClassLosses) {
  const Tensor x = drawn({4, 3}, 1), y = ext::tensor({2, 0, 1, 2});
  const Tensor weight = ext::tensor({1.0, 2.0, 0.5}, ext::float64);
  const ext::CrossEntropyOptions options{
      .weight = weight, .reduction = Reduction::sum, .ignore_index = 1, .label_smoothing = 0.1};
  const Tensor expected = cross_entropy(x, y, weight, Reduction::sum, 1, 0.1);
  expect_same({cross_entropy(x, y, options), nn::CrossEntropyLoss(options)(x, y)},
              {expected, expected});
  expect_same({cross_entropy(x, y, {.label_smoothing = 0.1})},
              {cross_entropy(x, y, {}, Reduction::mean, -100, 0.1)});
  expect_same({cross_entropy(x, y, {.reduction = Reduction::none})},
              {cross_entropy(x, y, {}, Reduction::none)});
  const Tensor g = ext::ones({}, ext::float64);
  expect_same({cross_entropy_backward(g, x, y, options).first},
              {cross_entropy_backward(g, x, y, weight, Reduction::sum, 1, 0.1).first});

  const Tensor features = drawn({4, 5}, 2), w = drawn({3, 5}, 3), b = drawn({3}, 4);
  expect_same({linear_cross_entropy(features, w, b, y, options)},
              {linear_cross_entropy(features, w, b, y, weight, Reduction::sum, 1, 0.1)});
  expect_same(
      {linear_cross_entropy_backward(g, features, w, b, y, options).x},
      {linear_cross_entropy_backward(g, features, w, b, y, weight, Reduction::sum, 1, 0.1).x});

  const Tensor logs = log_softmax(x, 1);
  const ext::NllOptions nll{.weight = weight, .ignore_index = 0};
  const Tensor nll_expected = nll_loss(logs, y, weight, Reduction::mean, 0);
  expect_same({nll_loss(logs, y, nll), nn::NLLLoss(nll)(logs, y)}, {nll_expected, nll_expected});
  expect_same({nll_loss_backward(g, logs, y, nll)},
              {nll_loss_backward(g, logs, y, weight, Reduction::mean, 0)});
  EXPECT_THROW(cross_entropy(x, y, {.label_smoothing = 2}), ext::ValueError);
}

TEST(CallsOptions, ElementwiseLosses) {
  const Tensor x = drawn({6}, 1), y = drawn({6}, 2);
  const auto sum = Reduction::sum;
  expect_same({huber_loss(x, y, {.delta = 0.5}), nn::HuberLoss({.delta = 0.5})(x, y),
               nn::HuberLoss(Reduction::mean, 0.5)(x, y)},
              std::vector<Tensor>(3, huber_loss(x, y, Reduction::mean, 0.5)));
  expect_same({smooth_l1_loss(x, y, {.beta = 2}), nn::SmoothL1Loss({.beta = 2})(x, y)},
              std::vector<Tensor>(2, smooth_l1_loss(x, y, Reduction::mean, 2)));
  expect_same({hinge_loss(x, y, {.reduction = sum, .margin = 2}),
               nn::HingeLoss({.reduction = sum, .margin = 2})(x, y)},
              std::vector<Tensor>(2, hinge_loss(x, y, sum, 2)));
  expect_same(
      {kl_divergence(x, y, {.log_target = true}), nn::KLDivLoss({.log_target = true})(x, y)},
      std::vector<Tensor>(2, kl_divergence(x, y, Reduction::mean, true)));
  const Tensor target = ext::tensor({0, 1, 1, 0, 1, 0});
  expect_same({focal_loss(x, target, {.gamma = 3}), nn::FocalLoss({.gamma = 3})(x, target)},
              std::vector<Tensor>(2, focal_loss(x, target, Reduction::mean, 0.25, 3)));
  const Tensor a = drawn({2, 3}, 3), p = drawn({2, 3}, 4), n = drawn({2, 3}, 5);
  const ext::TripletMarginOptions triplet{.margin = 2, .swap = true};
  expect_same({triplet_margin_loss(a, p, n, triplet), nn::TripletMarginLoss(triplet)(a, p, n)},
              std::vector<Tensor>(2, triplet_margin_loss(a, p, n, 2, 2, 1e-6, true)));
  const Tensor g = ext::ones({}, ext::float64);
  expect_same({huber_loss_backward(g, x, y, {.delta = 0.5}).first,
               focal_loss_backward(g, x, target, {.gamma = 3}).first,
               triplet_margin_loss_backward(g, a, p, n, triplet).anchor},
              {huber_loss_backward(g, x, y, Reduction::mean, 0.5).first,
               focal_loss_backward(g, x, target, Reduction::mean, 0.25, 3).first,
               triplet_margin_loss_backward(g, a, p, n, 2, 2, 1e-6, true).anchor});
  // The old forms of the layers.
  expect_same({nn::MSELoss(sum)(x, y), nn::L1Loss()(x, y), nn::HuberLoss(sum)(x, y)},
              {mean_squared_error(x, y, sum), l1_loss(x, y), huber_loss(x, y, sum)});
}

// Values by their definition, element by element.
TEST(CallsOptions, WeightsOfBinaryCrossEntropy) {
  const Tensor x = drawn({3, 2}, 1),
               y = ext::tensor({{1.0, 0.0}, {0.25, 1.0}, {0.0, 0.5}}, ext::float64);
  const Tensor weight = ext::tensor({{1.0}, {2.0}, {0.5}}, ext::float64),
               pos_weight = ext::tensor({3.0, 0.5}, ext::float64);
  const Values logits = values(x), targets = values(y), w = values(weight), pw = values(pos_weight);
  Values expected;
  double total = 0;
  for (std::size_t i = 0; i < 6; ++i) {
    const double p = 1 / (1 + std::exp(-logits[i]));
    expected.push_back(
        w[i / 2] * -(pw[i % 2] * targets[i] * std::log(p) + (1 - targets[i]) * std::log(1 - p)));
    total += expected.back();
  }
  const auto each = values(binary_cross_entropy_with_logits(
      x, y, {.weight = weight, .pos_weight = pos_weight, .reduction = Reduction::none}));
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(each[i], expected[i], 1e-14) << i;
  const Tensor mean = nn::BCEWithLogitsLoss({.weight = weight, .pos_weight = pos_weight})(x, y);
  EXPECT_NEAR(mean.item<double>(), total / 6, 1e-15);
  const Values only =
      values(binary_cross_entropy(sigmoid(x), y, {.weight = weight, .reduction = Reduction::none}));
  const Values plain = values(binary_cross_entropy(sigmoid(x), y, Reduction::none));
  for (std::size_t i = 0; i < 6; ++i) EXPECT_DOUBLE_EQ(only[i], w[i / 2] * plain[i]) << i;
  EXPECT_EQ(nn::BCELoss({.weight = weight})(sigmoid(x), y).shape(), (Shape{}));
  // Large logits stay finite, and halves are rounded once.
  const Tensor far = ext::tensor({1000.0, -1000.0}), one = ext::ones({2});
  EXPECT_EQ(values(binary_cross_entropy_with_logits(
                far, one, {.pos_weight = ext::tensor(2.0), .reduction = Reduction::none})),
            (Values{0, 2000}));
  EXPECT_EQ(binary_cross_entropy_with_logits(x.to(ext::float16), y.to(ext::float16),
                                             {.pos_weight = pos_weight})
                .dtype(),
            ext::float16);
  EXPECT_THROW(binary_cross_entropy_with_logits(x, y, {.weight = ext::ones({4})}), ext::ShapeError);
  EXPECT_THROW(binary_cross_entropy_with_logits(x, y, {.pos_weight = ext::ones({2, 3, 2})}),
               ext::ShapeError);
  // Autograd and the explicit backward.
  Tensor leaf = x.clone().requires_grad_();
  const ext::BinaryCrossEntropyWithLogitsOptions options{.weight = weight,
                                                         .pos_weight = pos_weight};
  binary_cross_entropy_with_logits(leaf, y, options).backward();
  const auto [of_x, of_y] =
      binary_cross_entropy_with_logits_backward(ext::ones({}, ext::float64), x, y, options);
  const Values got = values(leaf.grad()), stated = values(of_x);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(got[i], stated[i], 1e-15) << i;
}

TEST(CallsOptions, ConvolutionAndItsLayer) {
  const ext::Conv2dOptions options{.stride = 2, .padding = 1, .bias = false, .dtype = ext::float64};
  nn::Conv2d layer(3, 4, 3, options);
  EXPECT_FALSE(layer.bias.defined());
  EXPECT_EQ(layer.weight.dtype(), ext::float64);
  const Tensor x = drawn({2, 3, 7, 7}, 1);
  expect_same({layer(x)}, {conv2d(x, layer.weight, {}, options)});
  static_assert(std::is_same_v<nn::ConvOptions2d, ext::Conv2dOptions>);
  static_assert(std::is_same_v<nn::ConvOptions1d, ext::Conv1dOptions>);
  static_assert(std::is_same_v<nn::ConvTransposeOptions2d, ext::ConvTranspose2dOptions>);
  EXPECT_EQ(nn::Conv1d(2, 3, 5, {.padding = 2})(ext::ones({1, 2, 8})).shape(), (Shape{1, 3, 8}));
  EXPECT_EQ(
      nn::ConvTranspose2d(2, 3, 2, {.stride = 2, .bias = false})(ext::ones({1, 2, 4, 4})).shape(),
      (Shape{1, 3, 8, 8}));
  // Options that contradict the tensors are errors, not ignored.
  EXPECT_THROW(conv2d(x, layer.weight, ext::zeros({4}, ext::float64), options), ext::ValueError);
  EXPECT_THROW(conv2d(x, layer.weight, {}, {.dtype = ext::float32}), ext::DTypeError);
  EXPECT_THROW(conv2d_backward(layer(x), x, layer.weight,
                               {.stride = 2, .padding = 1, .dtype = ext::float32}),
               ext::DTypeError);
}

// ---- attention

TEST(CallsOptions, Attention) {
  const Tensor q = drawn({2, 4, 5, 3}, 1), k = drawn({2, 4, 5, 3}, 2), v = drawn({2, 4, 5, 3}, 3);
  expect_same({scaled_dot_product_attention(q, k, v, {.causal = true, .scale = 0.3})},
              {scaled_dot_product_attention(q, k, v, {}, true, 0.3)});
  const Tensor mask = drawn({5, 5}, 4);
  expect_same({scaled_dot_product_attention(q, k, v, {.mask = mask})},
              {scaled_dot_product_attention(q, k, v, mask)});
  const Tensor g = ext::ones({2, 4, 5, 3}, ext::float64);
  const auto by_options =
      scaled_dot_product_attention_backward(g, q, k, v, {.mask = mask, .causal = true}, true);
  const auto by_arguments =
      scaled_dot_product_attention_backward(g, q, k, v, mask, true, {}, {}, true);
  expect_same({by_options.q, by_options.k, by_options.v, by_options.mask},
              {by_arguments.q, by_arguments.k, by_arguments.v, by_arguments.mask});
}

TEST(CallsOptions, GroupedQueries) {
  const Tensor q = drawn({2, 6, 5, 3}, 1), k = drawn({2, 2, 7, 3}, 2), v = drawn({2, 2, 7, 4}, 3);
  const Tensor repeated_k = repeat(k, 3, 1), repeated_v = repeat(v, 3, 1);
  const auto near = [](const Tensor& a, const Tensor& b) {
    EXPECT_EQ(a.shape(), b.shape());
    EXPECT_TRUE(allclose(a, b, 1e-12, 1e-13));
  };
  near(scaled_dot_product_attention(q, k, v, {.enable_gqa = true}),
       scaled_dot_product_attention(q, repeated_k, repeated_v));
  for (const Shape& shape :
       {Shape{5, 7}, Shape{1, 5, 7}, Shape{6, 5, 7}, Shape{2, 1, 1, 7}, Shape{2, 6, 5, 7}}) {
    const Tensor mask = drawn(shape, 9);
    near(scaled_dot_product_attention(q, k, v, {.mask = mask, .causal = true, .enable_gqa = true}),
         scaled_dot_product_attention(q, repeated_k, repeated_v, mask, true));
  }
  EXPECT_THROW(scaled_dot_product_attention(q, k, v), ext::ShapeError);
  EXPECT_THROW(scaled_dot_product_attention(drawn({2, 5, 5, 3}, 1), k, v, {.enable_gqa = true}),
               ext::ShapeError);
  EXPECT_THROW(scaled_dot_product_attention(q[0][0], k[0][0], v[0][0], {.enable_gqa = true}),
               ext::ShapeError);
  EXPECT_THROW(
      scaled_dot_product_attention(q, k, v, {.mask = drawn({2, 5, 7}, 1), .enable_gqa = true}),
      ext::ShapeError);
  // Gradients of the shared heads are sums.
  Tensor leaf_k = k.clone().requires_grad_(), leaf_r = repeated_k.clone().requires_grad_();
  scaled_dot_product_attention(q, leaf_k, v, {.enable_gqa = true}).sum().backward();
  scaled_dot_product_attention(q, leaf_r, repeated_v).sum().backward();
  near(leaf_k.grad(), leaf_r.grad().reshape(2, 2, 3, 7, 3).sum(2));
}

TEST(CallsOptions, AttentionAndItsLayer) {
  // One struct for both: causal, with a scale and two heads of keys and values for four of queries.
  const ext::AttentionOptions options{
      .causal = true, .scale = 0.7, .bias = false, .dtype = ext::float64, .key_value_heads = 2};
  const nn::MultiheadAttention layer(8, 4, options);
  EXPECT_FALSE(layer.in_proj_bias.defined());
  const Tensor x = drawn({3, 5, 8}, 1);
  const Tensor& weight = layer.in_proj_weight.tensor();
  ASSERT_EQ(weight.shape(), (Shape{16, 8}));
  const auto heads = [&](std::int64_t first, std::int64_t last, std::int64_t count) {
    const Tensor part = matmul(x, weight.slice(0, first, last).transpose(0, 1));
    return part.reshape({3, 5, count, 2}).transpose(1, 2);
  };
  const Tensor q = heads(0, 8, 4), k = heads(8, 12, 2), v = heads(12, 16, 2);
  const Tensor seen = scaled_dot_product_attention(q, k, v, options);
  const Tensor expected =
      matmul(seen.transpose(1, 2).reshape({3, 5, 8}), layer.out_proj.weight.transpose(0, 1));
  EXPECT_TRUE(allclose(layer(x), expected, 1e-12, 1e-13));
  EXPECT_TRUE(allclose(
      seen, scaled_dot_product_attention(q, repeat(k, 2, 1), repeat(v, 2, 1), {}, true, 0.7), 1e-12,
      1e-13));
  // The same token by token, and without groups, where the layer reads q, k and v in place.
  {
    const ext::NoGrad off;
    nn::KeyValueCache cache(5);
    const nn::AttentionMasks none;
    const Tensor first = layer(x.slice(1, 0, 2), none, cache),
                 rest = layer(x.slice(1, 2), none, cache);
    EXPECT_TRUE(allclose(ext::cat({first, rest}, 1), expected, 1e-12, 1e-13));
  }
  nn::MultiheadAttention packed(8, 4, {.causal = true, .scale = 0.7, .dtype = ext::float64});
  nn::MultiheadAttention plain(8, 4, {.dtype = ext::float64});
  plain.load_state_dict(packed.state_dict());
  const double root = std::sqrt(2.0);  // of the width of a head
  {
    const ext::NoGrad off;
    Tensor queries = plain.in_proj_weight.tensor().slice(0, 0, 8);
    queries *= 0.7 * root;
  }
  EXPECT_TRUE(allclose(packed(x), plain(x, nn::AttentionMasks{.causal = true}), 1e-12, 1e-13));
  // Options that contradict the tensors of the function, and those that a layer does not take.
  EXPECT_THROW(scaled_dot_product_attention(q, k, v, {.key_width = 8}), ext::ValueError);
  EXPECT_THROW(scaled_dot_product_attention(q, k, v, {.value_width = 8}), ext::ValueError);
  EXPECT_THROW(scaled_dot_product_attention(q, k, v, {.dtype = ext::float32}), ext::DTypeError);
  EXPECT_THROW(scaled_dot_product_attention(q, k, v, {.key_value_heads = 4}), ext::ValueError);
  EXPECT_THROW(scaled_dot_product_attention_backward(seen, q, k, v, {.key_value_heads = 4}),
               ext::ValueError);
  EXPECT_THROW(nn::MultiheadAttention(8, 2, {.mask = ext::ones({5, 5})}), ext::ValueError);
  EXPECT_THROW(nn::MultiheadAttention(8, 2, {.scale = std::nan("")}), ext::ValueError);
}

TEST(CallsOptions, DropoutInAttention) {
  const Tensor q = drawn({3, 40, 8}, 1), k = drawn({3, 50, 8}, 2), v = drawn({3, 50, 4}, 3);
  ext::Generator generator(5), again(5);
  const Tensor once = scaled_dot_product_attention(q, k, v, {.dropout = 0.5}, generator);
  expect_same({scaled_dot_product_attention(q, k, v, {.dropout = 0.5}, again)}, {once});
  EXPECT_NE(values(scaled_dot_product_attention(q, k, v, {.dropout = 0.5}, generator)),
            values(once));
  // Each weight is kept with probability 1 − p and scaled, so the mean over draws is the result
  // without dropout.
  Tensor mean = ext::zeros({3, 40, 4}, ext::float64);
  constexpr int draws = 400;
  for (int i = 0; i < draws; ++i) {
    mean += scaled_dot_product_attention(q, k, v, {.dropout = 0.25}, generator) / draws;
  }
  const Tensor exact = scaled_dot_product_attention(q, k, v);
  // A weight w of value v has variance w² v² p / (1 − p).
  const Tensor weights = softmax(matmul(q, k.transpose(1, 2)) / std::sqrt(8.0));
  const Tensor deviation = sqrt(matmul(weights * weights, v * v) * (0.25 / 0.75) / draws);
  EXPECT_TRUE((abs(mean - exact) < 6 * deviation).all().item<bool>());
  // All dropped; a query that sees nothing; wrong probabilities.
  EXPECT_EQ(values(scaled_dot_product_attention(q, k, v, {.dropout = 1})), Values(480, 0));
  const Tensor none = ext::zeros({40, 50}, ext::bool_);
  EXPECT_EQ(values(scaled_dot_product_attention(q, k, v, {.mask = none, .dropout = 0.1})),
            Values(480, 0));
  EXPECT_THROW(scaled_dot_product_attention(q, k, v, {.dropout = 1.5}), ext::ValueError);
  EXPECT_THROW(scaled_dot_product_attention(q, k, v, {.dropout = std::nan("")}), ext::ValueError);
  EXPECT_THROW(scaled_dot_product_attention_backward(once, q, k, v, {.dropout = 0.1}),
               ext::ValueError);
  // Dropout and grouped queries together, with a gradient.
  Tensor leaf = drawn({1, 2, 6, 4}, 7).requires_grad_();
  scaled_dot_product_attention(drawn({1, 4, 5, 4}, 8), leaf, drawn({1, 2, 6, 4}, 9),
                               {.causal = true, .dropout = 0.3, .enable_gqa = true})
      .sum()
      .backward();
  EXPECT_TRUE(isfinite(leaf.grad()).all().item<bool>());
  // The layer trains with it.
  nn::MultiheadAttention layer(8, 2, {.dropout = 0.5});
  const Tensor x = ext::ones({2, 4, 8});
  EXPECT_NE(values(layer(x)), values(layer(x)));
  layer.eval();
  EXPECT_EQ(values(layer(x)), values(layer(x)));
}

// ---- {} as options

TEST(CallsOptions, EmptyBracesAreTheDefaultOptions) {
  ext::Generator one(7), two(7);
  EXPECT_EQ(ext::normal({3}, 0, 1, {}, one).dtype(), ext::float32);
  EXPECT_EQ(ext::randn({3}, {}, two).dtype(), ext::float32);
  EXPECT_EQ(ext::rand({3}, {}, one).dtype(), ext::float32);
  EXPECT_EQ(ext::uniform({3}, 0, 1, {}, one).dtype(), ext::float32);
  EXPECT_EQ(ext::randint(0, 9, {3}, {}, one).dtype(), ext::int64);
  EXPECT_EQ(ext::bernoulli(0.5, {3}, {}, one).dtype(), ext::float32);
  EXPECT_EQ(ext::xavier_uniform({3, 3}, 1, {}, one).dtype(), ext::float32);
  EXPECT_EQ(ext::zeros({3}, {}).dtype(), ext::float32);
  EXPECT_EQ(ext::ones({3}, {}).dtype(), ext::float32);
  EXPECT_EQ(ext::empty({3}, {}).dtype(), ext::float32);
  EXPECT_EQ(ext::eye(3, {}, 0, {}).dtype(), ext::float32);
  EXPECT_EQ(ext::linspace(0, 1, 3, {}).dtype(), ext::float32);
  EXPECT_EQ(ext::zeros({3}, {ext::float64}).dtype(), ext::float64);
  EXPECT_EQ(ext::zeros({3}, ext::float64).dtype(), ext::float64);
}

// ---- functions as layers

TEST(CallsOptions, OverloadedFunctionsAreLayers) {
  const Tensor x = ext::ones({2, 3});
  nn::Linear first(3, 4), last(4, 2);
  const nn::Sequential model{first, ext::gelu, last};
  EXPECT_EQ(model.size(), 3u);
  EXPECT_TRUE(ext::allclose(model(x), last(ext::gelu(first(x))), 0, 0));
  EXPECT_EQ(nn::Sequential(ext::gelu)(x).shape(), x.shape());
  EXPECT_EQ(nn::Sequential(nn::Sequential{first, ext::gelu}).size(), 2u) << "a copy";
  EXPECT_EQ((nn::Sequential{ext::relu, ext::gelu, ext::tanh, first}).size(), 4u);
}

}  // namespace
