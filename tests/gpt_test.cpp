// Gpt and its options: numbers of parameters, names, initialization, tied embeddings, dropout, and
// blocks compared with single ops. pytorch_exchange_test compares with PyTorch.
#include <gtest/gtest.h>

#include <cmath>

#include "extensor/extensor.h"
#include "support/compare.h"

namespace extensor {
namespace {

using compare::identical;
using models::Gpt;
using models::GptActivation;
using models::GptBlock;
using models::GptOptions;

Tensor tokens(const Shape& shape, std::int64_t vocabulary) {
  std::int64_t count = 1;
  for (std::int64_t size : shape) count *= size;
  return ((arange(count) * 7 + 3) % vocabulary).reshape(shape);
}

bool is_same(const Tensor& a, const Tensor& b) { return a.impl_or_null() == b.impl_or_null(); }

// ---- parameters

// From GPT-2's description: token and position embeddings; blocks of two norms, the projections of
// query, key and value, that of attention, and a perceptron of four times the width; and a norm.
std::int64_t described_count(const GptOptions& o) {
  const std::int64_t c = o.width, with_bias = o.bias ? 1 : 0;
  const auto linear = [&](std::int64_t in, std::int64_t out) { return in * out + with_bias * out; };
  const std::int64_t norm = c + with_bias * c;
  const std::int64_t block =
      2 * norm + linear(c, 3 * c) + linear(c, c) + linear(c, 4 * c) + linear(4 * c, c);
  const std::int64_t embeddings = o.vocabulary * c + o.block * c;
  return embeddings + o.layers * block + norm + (o.tied ? 0 : o.vocabulary * c);
}

TEST(Gpt, HasAsManyParametersAsItsDescription) {
  for (bool bias : {true, false}) {
    for (bool tied : {true, false}) {
      for (std::int64_t layers : {1, 3}) {
        const GptOptions options{.vocabulary = 11,
                                 .block = 5,
                                 .layers = layers,
                                 .heads = 2,
                                 .width = 6,
                                 .bias = bias,
                                 .tied = tied};
        EXPECT_EQ(Gpt(options).parameter_count(), described_count(options));
      }
    }
  }
}

// Too large to create in a test: counted by the formula that the test above checks.
TEST(Gpt, OptionsOfGpt2) {
  const GptOptions options = models::gpt2_options();
  EXPECT_EQ(described_count(options), 124'439'808);
  EXPECT_EQ(options.vocabulary, 50257);
  EXPECT_EQ(options.block, 1024);
  EXPECT_EQ(options.heads, 12);
  EXPECT_EQ(options.eps, 1e-5);
  EXPECT_EQ(options.dropout, 0.1);
  EXPECT_EQ(options.activation, GptActivation::gelu_tanh);
  EXPECT_TRUE(options.tied && options.bias);
  GptOptions small = options;  // the same, but smaller
  small.vocabulary = 20;
  small.block = 8;
  small.layers = 1;
  small.width = 24;
  const Tensor ids = tokens({2, 8}, 20);
  EXPECT_EQ(Gpt(small)(ids).shape(), (Shape{2, 8, 20}));
}

TEST(Gpt, NamesWithAndWithoutBiases) {
  const auto names = [](const GptOptions& options) {
    std::vector<std::string> list;
    for (const auto& [name, tensor] : Gpt(options).state_dict()) list.push_back(name);
    return list;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names({.layers = 1}),
            (Names{"wte.weight", "wpe.weight", "h.0.ln_1.weight", "h.0.ln_1.bias",
                   "h.0.attn.in_proj_weight", "h.0.attn.in_proj_bias", "h.0.attn.out_proj.weight",
                   "h.0.attn.out_proj.bias", "h.0.ln_2.weight", "h.0.ln_2.bias", "h.0.fc.weight",
                   "h.0.fc.bias", "h.0.proj.weight", "h.0.proj.bias", "ln_f.weight", "ln_f.bias",
                   "lm_head.weight"}));
  EXPECT_EQ(names({.layers = 1, .bias = false, .tied = true}),
            (Names{"wte.weight", "wpe.weight", "h.0.ln_1.weight", "h.0.attn.in_proj_weight",
                   "h.0.attn.out_proj.weight", "h.0.ln_2.weight", "h.0.fc.weight",
                   "h.0.proj.weight", "ln_f.weight", "lm_head.weight"}));
}

TEST(Gpt, BeginsAsGpt2) {
  manual_seed(1);
  const std::int64_t layers = 8;
  const Gpt model({.layers = layers, .width = 64, .tied = true});
  for (const auto& [name, tensor] : model.named_parameters()) {
    if (name.ends_with("bias")) {
      EXPECT_TRUE(identical(tensor.detach(), zeros(tensor.shape()))) << name;
    } else if (name.find("ln_") != std::string::npos) {
      EXPECT_TRUE(identical(tensor.detach(), ones(tensor.shape()))) << name;
    } else {
      const bool ends = name.ends_with("out_proj.weight") || name.ends_with(".proj.weight");
      const double deviation = ends ? 0.02 / std::sqrt(2.0 * layers) : 0.02;
      const double found = std::sqrt(mean(square(tensor.detach())).item<double>());
      EXPECT_NEAR(found / deviation, 1, 0.05) << name;
    }
  }
}

// ---- tied embeddings

TEST(Gpt, TiedEmbeddingsAreOneParameter) {
  manual_seed(2);
  Gpt model({.vocabulary = 13, .block = 6, .layers = 1, .heads = 2, .width = 8, .tied = true});
  EXPECT_TRUE(is_same(model.lm_head.weight, model.wte.weight));
  const Gpt copy = model;
  EXPECT_TRUE(is_same(copy.lm_head.weight, copy.wte.weight));
  EXPECT_FALSE(is_same(copy.wte.weight, model.wte.weight));
  const Tensor ids = tokens({2, 6}, 13), g = normal({2, 6, 13}, 0, 1);
  const auto gradient = [&](const Gpt& gpt) {
    return grad({gpt(ids)}, {gpt.wte.weight.tensor()}, {.grad_outputs = {g}})[0];
  };
  // In an untied model with the same values, the two gradients have to be added.
  Gpt untied({.vocabulary = 13, .block = 6, .layers = 1, .heads = 2, .width = 8});
  untied.load_state_dict(model.state_dict());
  EXPECT_TRUE(identical(model(ids), untied(ids)));
  const std::vector<Tensor> both =
      grad({untied(ids)}, {untied.wte.weight.tensor(), untied.lm_head.weight.tensor()},
           {.grad_outputs = {g}});
  EXPECT_TRUE(allclose(gradient(model), both[0] + both[1], 1e-5, 1e-6));
}

TEST(Gpt, TiedModelsLearnAndAreLoaded) {
  manual_seed(3);
  const GptOptions options{.vocabulary = 13,
                           .block = 6,
                           .layers = 1,
                           .heads = 2,
                           .width = 16,
                           .activation = GptActivation::gelu_tanh,
                           .bias = false,
                           .tied = true};
  Gpt model(options);
  const Tensor ids = tokens({2, 6}, 13), next = tokens({12}, 13);
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
  std::vector<float> losses;
  for (int step = 0; step < 20; ++step) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(model(ids).reshape({12, 13}), next);
    losses.push_back(loss.item<float>());
    loss.backward();
    for (const auto& [name, parameter] : model.named_parameters()) {
      ASSERT_TRUE(parameter.grad().defined()) << name;
    }
    optimizer.step();
  }
  EXPECT_LT(losses.back(), losses.front() / 2);
  EXPECT_TRUE(is_same(model.lm_head.weight, model.wte.weight));
  Gpt other(options);
  other.load_state_dict(model.state_dict());
  EXPECT_TRUE(identical(other(ids), model(ids)));
  // One name is enough; two with different values are not the state of a tied model.
  NamedTensors state = model.state_dict(), one;
  for (const auto& entry : state) {
    if (entry.first != "lm_head.weight") one.push_back(entry);
  }
  Gpt third(options);
  third.load_state_dict(one);
  EXPECT_TRUE(identical(third(ids), model(ids)));
  const Gpt untied(
      {.vocabulary = 13, .block = 6, .layers = 1, .heads = 2, .width = 16, .bias = false});
  EXPECT_THROW(third.load_state_dict(untied.state_dict()), ValueError);
}

// ---- options

TEST(Gpt, DropoutRatesAreTheirOwn) {
  manual_seed(4);
  const GptOptions small{.vocabulary = 13, .block = 6, .layers = 2, .heads = 2, .width = 8};
  const Tensor ids = tokens({2, 6}, 13);
  const auto with = [&](auto change) {
    GptOptions options = small;
    change(options);
    Gpt model(options);
    return model;
  };
  // Every embedding is dropped.
  const Gpt embedding = with([](GptOptions& o) { o.embedding_dropout = 1; });
  EXPECT_TRUE(identical(embedding(ids), zeros({2, 6, 13})));
  // Every branch is dropped.
  const Gpt residual = with([](GptOptions& o) { o.residual_dropout = 1; });
  EXPECT_TRUE(identical(
      residual(ids), residual.lm_head(residual.ln_f(residual.wte(ids) + residual.wpe(arange(6))))));
  // No token attends to another one: only the last of these changes.
  const Gpt attention = with([](GptOptions& o) { o.attention_dropout = 1; });
  Tensor other = ids.clone();
  other[0][0].fill(12);
  EXPECT_FALSE(identical(attention(ids)[0][0], attention(other)[0][0]));
  EXPECT_TRUE(identical(attention(ids)[0][5], attention(other)[0][5]));
  // `dropout` is the default of the other rates.
  const Gpt rest = with([](GptOptions& o) {
    o.dropout = 1;
    o.embedding_dropout = 0;
    o.residual_dropout = 0;
    o.attention_dropout = 0;
  });
  EXPECT_TRUE(identical(rest(ids), rest(ids)));
  EXPECT_THROW(with([](GptOptions& o) { o.embedding_dropout = 2; }), ValueError);
  EXPECT_THROW(with([](GptOptions& o) { o.attention_dropout = -1; }), ValueError);
}

TEST(Gpt, BlocksHaveTheBitsOfSingleOps) {
  for (bool bias : {true, false}) {
    for (GptActivation activation : {GptActivation::gelu, GptActivation::gelu_tanh}) {
      manual_seed(5);
      const GptBlock block(
          {.heads = 2, .width = 8, .activation = activation, .bias = bias, .eps = 1e-2});
      EXPECT_EQ(block.ln_1.bias.defined(), bias);
      const Tensor x = normal({2, 5, 8}, 0, 1).requires_grad_();
      const auto unfused = [&] {
        const nn::AttentionMasks causal{.causal = true};
        const Tensor& w = block.ln_1.weight;
        const Tensor y = x + block.attn(layer_norm(x, {8}, w, block.ln_1.bias, 1e-2), causal);
        const Tensor hidden =
            block.fc(layer_norm(y, {8}, block.ln_2.weight, block.ln_2.bias, 1e-2));
        return y + block.proj(activation == GptActivation::gelu ? gelu(hidden) : gelu_tanh(hidden));
      };
      const std::vector<Tensor> parameters = block.parameters();
      const Tensor y = block(x), expected = unfused(), g = normal({2, 5, 8}, 0, 1);
      EXPECT_TRUE(identical(y, expected));
      std::vector<Tensor> inputs{x};
      inputs.insert(inputs.end(), parameters.begin(), parameters.end());
      const std::vector<Tensor> got = grad({y}, inputs, {.grad_outputs = {g}});
      const std::vector<Tensor> wanted = grad({expected}, inputs, {.grad_outputs = {g}});
      for (std::size_t k = 0; k < got.size(); ++k) EXPECT_TRUE(identical(got[k], wanted[k])) << k;
    }
  }
}

// A branch in bfloat16 is added to a float32 residual.
TEST(Gpt, BlocksUnderAutocastHaveTheBitsOfSingleOps) {
  manual_seed(6);
  const GptBlock block({.heads = 2, .width = 8});
  const Tensor x = normal({2, 5, 8}, 0, 1);
  const Autocast half;
  const Tensor y = x + block.attn(block.ln_1(x), nn::AttentionMasks{.causal = true});
  const Tensor expected = y + block.proj(gelu(block.fc(block.ln_2(y))));
  EXPECT_EQ(block.fc(x).dtype(), DType::bfloat16);
  EXPECT_EQ(block(x).dtype(), DType::float32);
  EXPECT_TRUE(identical(block(x), expected));
}

}  // namespace
}  // namespace extensor
