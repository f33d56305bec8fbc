// Every layer through autograd: the gradients of its input and its parameters against finite
// differences, also their gradients, and its behavior for unusual input.
#include <gtest/gtest.h>

#include <sstream>

#include "extensor/extensor.h"

namespace extensor {
namespace {

// Numbers away from 0, where activations have kinks; the same in every run.
Tensor numbers(const Shape& shape, double offset = 0) {
  std::int64_t count = 1;
  for (std::int64_t size : shape) count *= size;
  const Tensor x = ((arange(count) * 37 + 11) % 101).to(float64) / 101 * 2.0 - 1.0 + offset;
  return where(less(abs(x), 0.02), full({}, 0.05, float64), x).reshape(shape);
}

struct Evaluated {
  Tensor result;
  std::vector<Tensor> leaves;
};

// The gradients of the leaves for one gradient of the result, as one vector.
Tensor first_gradients(const Evaluated& at) {
  const std::vector<Tensor> gradients = grad(
      std::vector{at.result}, at.leaves,
      {.create_graph = true, .allow_unused = true, .grad_outputs = {numbers(at.result.shape())}});
  std::vector<Tensor> flat;
  for (const Tensor& gradient : gradients) {
    if (gradient.defined()) flat.push_back(flatten(gradient));
  }
  return concatenate(flat);
}

// Differentiates one result of `call(model, x)` with respect to x and every parameter, and its
// gradients again.
template <class Model, class Call>
void check_gradients(Model model, const Tensor& x, const Call& call) {
  model.to(float64);
  std::vector<Tensor> points{x};
  for (const Tensor& parameter : model.parameters()) points.push_back(parameter.detach().clone());
  const bool differentiable_input = is_floating_point(x.dtype());
  if (!differentiable_input) points.erase(points.begin());
  // A copy for every evaluation, so that running statistics start with the same values.
  const auto evaluate = [&](const std::vector<Tensor>& in) {
    Model copy = model;
    manual_seed(3);
    std::size_t next = differentiable_input ? 1 : 0;
    {
      const NoGrad off;
      for (Tensor parameter : copy.parameters()) parameter.copy_from(in[next++]);
    }
    Evaluated at;
    Tensor input = x;
    if (differentiable_input) {
      input = in[0].clone().requires_grad_();
      at.leaves.push_back(input);
    }
    for (const Tensor& parameter : copy.parameters()) at.leaves.push_back(parameter);
    at.result = call(copy, input);
    return at;
  };
  const auto check = [&](const char* order, auto&& function) {
    const auto result =
        gradcheck([&](const std::vector<Tensor>& in) { return function(evaluate(in)).detach(); },
                  [&](const Tensor& g, const std::vector<Tensor>& in) {
                    const Evaluated at = evaluate(in);
                    const Tensor y = function(at);
                    std::vector<Tensor> gradients(at.leaves.size());
                    // Nothing is recorded if the gradients do not depend on the leaves.
                    if (y.requires_grad()) {
                      gradients = grad(std::vector{y}, at.leaves,
                                       {.allow_unused = true, .grad_outputs = {g}});
                    }
                    for (std::size_t k = 0; k < at.leaves.size(); ++k) {
                      if (!gradients[k].defined()) gradients[k] = zeros_like(at.leaves[k]);
                    }
                    return gradients;
                  },
                  points);
    EXPECT_TRUE(result) << nn::detail::type_name<Model>() << ", " << order << ": "
                        << result.message;
  };
  check("first order", [](const Evaluated& at) { return at.result; });
  check("second order", first_gradients);
}
template <class Model>
void check_gradients(const Model& model, const Tensor& x) {
  check_gradients(model, x, [](Model& m, const Tensor& in) { return m(in); });
}

TEST(NnLayers, LinearAndConvolutions) {
  check_gradients(nn::Linear(3, 4), numbers({2, 3}));
  check_gradients(nn::Linear(3, 4, {.bias = false}), numbers({2, 2, 3}));
  check_gradients(nn::Conv1d(4, 6, 3, {.stride = 2, .padding = 1, .groups = 2}),
                  numbers({2, 4, 7}));
  check_gradients(nn::Conv2d(2, 3, {3, 2}, {.stride = {2, 1}, .padding = {1, 0}}),
                  numbers({2, 2, 5, 4}));
  check_gradients(nn::ConvTranspose2d(2, 3, 3, {.stride = 2, .padding = 1, .output_padding = 1}),
                  numbers({1, 2, 3, 3}));
}

TEST(NnLayers, PoolingAndShape) {
  check_gradients(nn::AvgPool2d(2), numbers({1, 2, 4, 4}));
  check_gradients(nn::AdaptiveAvgPool2d({2, 1}), numbers({1, 2, 4, 5}));
  check_gradients(nn::MaxPool2d(2), numbers({1, 2, 4, 4}));
  check_gradients(nn::Flatten(), numbers({2, 2, 3}));
  EXPECT_EQ(nn::Flatten(0, 1)(numbers({2, 2, 3})).shape(), (Shape{4, 3}));
}

TEST(NnLayers, Normalization) {
  check_gradients(nn::BatchNorm1d(3), numbers({4, 3}));
  check_gradients(nn::BatchNorm2d(2), numbers({2, 2, 3, 3}));
  nn::BatchNorm2d fixed(2);
  fixed.eval();
  check_gradients(fixed, numbers({2, 2, 3, 3}));
  check_gradients(nn::LayerNorm(5), numbers({3, 5}));
  check_gradients(nn::LayerNorm(Shape{2, 3}, {.bias = false}), numbers({2, 2, 3}));
  check_gradients(nn::RMSNorm(5, {.eps = 1e-6}), numbers({3, 5}));
  check_gradients(nn::GroupNorm(2, 4), numbers({2, 4, 3}));
  check_gradients(nn::InstanceNorm(3, {.affine = true}), numbers({2, 3, 4}));
}

TEST(NnLayers, Activations) {
  const Tensor x = numbers({3, 4});
  check_gradients(nn::ReLU(), x);
  check_gradients(nn::ReLU6(), x);
  check_gradients(nn::LeakyReLU(0.2), x);
  check_gradients(nn::ELU(), x);
  check_gradients(nn::SELU(), x);
  check_gradients(nn::GELU(), x);
  check_gradients(nn::GELU(true), x);
  check_gradients(nn::SiLU(), x);
  check_gradients(nn::Mish(), x);
  check_gradients(nn::Sigmoid(), x);
  check_gradients(nn::LogSigmoid(), x);
  check_gradients(nn::Tanh(), x);
  check_gradients(nn::Softplus(2), x);
  check_gradients(nn::Hardsigmoid(), x);
  check_gradients(nn::Hardswish(), x);
  check_gradients(nn::Hardtanh(-0.5, 0.5), x * 0.9);
  check_gradients(nn::Softmax(), x);
  check_gradients(nn::LogSoftmax(0), x);
  check_gradients(nn::GLU(), x);
  check_gradients(nn::PReLU(), x);
  check_gradients(nn::PReLU(4), x);
}

TEST(NnLayers, DropoutAndEmbedding) {
  check_gradients(nn::Dropout(0.4), numbers({3, 4}));
  check_gradients(nn::Embedding(6, 3), tensor({0, 5, 5, 2}));
  nn::Dropout dropout(0.5);
  dropout.eval();
  const Tensor x = numbers({4});
  EXPECT_TRUE(allclose(dropout(x), x));
}

TEST(NnLayers, Attention) {
  const Tensor x = numbers({2, 3, 4});
  check_gradients(nn::MultiheadAttention(4, 2), x);
  check_gradients(nn::MultiheadAttention(4, 2), x, [](auto& m, const Tensor& in) {
    return m(in, nn::AttentionMasks{.causal = true});
  });
  check_gradients(nn::MultiheadAttention(4, 2, {.key_width = 5, .value_width = 3}), x,
                  [](auto& m, const Tensor& in) {
                    return m(in, numbers({2, 4, 5}, 0.1), numbers({2, 4, 3}, 0.2));
                  });
  // A padded key makes no difference.
  nn::MultiheadAttention attention(4, 1);
  const Tensor query = rand({1, 2, 4}), key = rand({1, 3, 4});
  const Tensor padded = concatenate({key, full({1, 1, 4}, 9.0)}, 1);
  const Tensor hidden = greater(tensor({{0, 0, 0, 1}}), 0);
  EXPECT_TRUE(allclose(attention(query, key, key),
                       attention(query, padded, padded, nn::AttentionMasks{.key_padding = hidden}),
                       1e-6, 1e-7));
}

// Attention with a dropout of 0 is the fused one.
TEST(NnLayers, AttentionWithDropoutAgreesWithoutIt) {
  manual_seed(0);
  nn::MultiheadAttention plain(8, 2);
  nn::MultiheadAttention thinned(8, 2, {.dropout = 1e-12});
  thinned.load_state_dict(plain.state_dict());
  const Tensor x = rand({2, 5, 8});
  const nn::AttentionMasks causal{.causal = true};
  EXPECT_TRUE(allclose(plain(x, causal), thinned(x, causal), 1e-6, 1e-7));
}

TEST(NnLayers, Transformers) {
  const nn::TransformerOptions options{.feedforward = 6, .dropout = 0};
  const nn::TransformerOptions first{.feedforward = 6,
                                     .dropout = 0,
                                     .activation = nn::TransformerActivation::gelu,
                                     .norm_first = true};
  const Tensor x = numbers({1, 3, 4}), memory = numbers({1, 2, 4}, 0.3);
  check_gradients(nn::TransformerEncoderLayer(4, 2, options), x);
  check_gradients(nn::TransformerEncoderLayer(4, 2, first), x);
  const auto decode = [&](auto& m, const Tensor& in) {
    return m(in, memory, nn::AttentionMasks{.causal = true});
  };
  check_gradients(nn::TransformerDecoderLayer(4, 2, options), x, decode);
  check_gradients(nn::TransformerDecoderLayer(4, 2, first), x, decode);
  nn::TransformerEncoder encoder(nn::TransformerEncoderLayer(4, 2, options), 2);
  EXPECT_EQ(encoder(rand({1, 3, 4})).shape(), (Shape{1, 3, 4}));
  EXPECT_EQ(encoder.named_parameters()[0].first, "layers.0.self_attn.in_proj_weight");
}

TEST(NnLayers, Losses) {
  const Tensor target = numbers({3, 4}, 0.4);
  const auto check = [&](const auto& loss) {
    check_gradients(loss, numbers({3, 4}), [&](auto& m, const Tensor& x) { return m(x, target); });
  };
  check(nn::MSELoss());
  check(nn::L1Loss(Reduction::sum));
  check(nn::SmoothL1Loss());
  check(nn::HuberLoss(Reduction::none, 0.5));
  check(nn::HingeLoss());
  check(nn::BCEWithLogitsLoss());
  check(nn::FocalLoss());
  check_gradients(nn::BCELoss(), numbers({3, 4}) * 0.4 + 0.5,
                  [&](auto& m, const Tensor& x) { return m(x, sigmoid(target)); });
  check_gradients(nn::KLDivLoss(), numbers({3, 4}),
                  [&](auto& m, const Tensor& x) { return m(log_softmax(x), softmax(target)); });
  const Tensor classes = tensor({0, 3, 1});
  check_gradients(nn::CrossEntropyLoss({.label_smoothing = 0.1}), numbers({3, 4}),
                  [&](auto& m, const Tensor& x) { return m(x, classes); });
  check_gradients(nn::NLLLoss(), numbers({3, 4}),
                  [&](auto& m, const Tensor& x) { return m(log_softmax(x), classes); });
  check_gradients(nn::TripletMarginLoss(), numbers({3, 4}),
                  [&](auto& m, const Tensor& x) { return m(x, target, target * 0.3); });
}

TEST(NnLayers, Networks) {
  check_gradients(models::Mlp({4, 5, 3}), numbers({2, 4}));
  check_gradients(models::ResidualBlock(2, 3, 2), numbers({2, 2, 4, 4}));
  check_gradients(models::GptBlock({.heads = 2, .width = 4}), numbers({1, 3, 4}));
}

TEST(NnLayers, BadArgumentsNameTheLayer) {
  const auto message_of = [](const auto& make) -> std::string {
    try {
      make();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message_of([] { nn::Linear(0, 4); }).find("Linear: in_features is 0"),
            std::string::npos);
  EXPECT_NE(message_of([] { nn::Conv2d(3, 4, 3, {.groups = 2}); }).find("Conv2d: groups is 2"),
            std::string::npos);
  EXPECT_NE(message_of([] { nn::Dropout(1.5); }).find("Dropout: p is 1.5"), std::string::npos);
  EXPECT_NE(message_of([] { nn::GroupNorm(3, 4); }).find("GroupNorm"), std::string::npos);
  EXPECT_NE(message_of([] { nn::MultiheadAttention(5, 2); }).find("2 heads"), std::string::npos);
  EXPECT_NE(message_of([] {
              nn::BatchNorm2d(3)(rand({2, 4, 5, 5}));
            }).find("[2, 4, 5, 5]"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              models::Gpt()(zeros({1, 65}, int64));
            }).find("up to 64"),
            std::string::npos);
}

}  // namespace
}  // namespace extensor
