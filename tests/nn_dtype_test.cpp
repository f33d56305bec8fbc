// Layers reject inputs whose float dtype differs from that of their parameters, and suggest a
// remedy.
#include <gtest/gtest.h>

#include "extensor/extensor.h"

namespace extensor {
namespace {

// Runs f with an input of the wrong dtype and with one of the right dtype.
template <class Layer, class Forward>
void expect_refused(const char* name, Layer layer, const Shape& shape, const Forward& forward) {
  const Tensor x = uniform(shape, -1, 1, float64);
  for (const DType wrong : {float64, float16, bfloat16}) {
    try {
      forward(layer, x.to(wrong));
      ADD_FAILURE() << name << " takes " << to_string(zeros({1}, wrong));
    } catch (const DTypeError& error) {
      const std::string text = error.what();
      EXPECT_TRUE(text.starts_with(std::string(name) + ": ")) << text;
      EXPECT_NE(text.find("the layer's parameters are float32"), std::string::npos) << text;
      EXPECT_NE(text.find("x.to(ext::float32)"), std::string::npos) << text;
    }
  }
  forward(layer, x.to(float32));
  layer.to(float64);
  EXPECT_THROW(forward(layer, x.to(float32)), DTypeError) << name;
  forward(layer, x);
}

template <class Layer>
void expect_refused(const char* name, Layer layer, const Shape& shape) {
  expect_refused(name, std::move(layer), shape, [](Layer& of, const Tensor& x) { of(x); });
}

TEST(NnDtype, LayersRefuseAnother) {
  expect_refused("Linear", nn::Linear(3, 2), {4, 3});
  expect_refused("Conv1d", nn::Conv1d(2, 3, 3), {1, 2, 5});
  expect_refused("Conv2d", nn::Conv2d(2, 3, 3), {1, 2, 5, 5});
  expect_refused("ConvTranspose2d", nn::ConvTranspose2d(2, 3, 3), {1, 2, 5, 5});
  expect_refused("BatchNorm1d", nn::BatchNorm1d(3), {4, 3});
  expect_refused("BatchNorm2d", nn::BatchNorm2d(3, {.affine = false}), {4, 3, 2, 2});
  expect_refused("LayerNorm", nn::LayerNorm(3), {4, 3});
  expect_refused("RMSNorm", nn::RMSNorm(3), {4, 3});
  expect_refused("GroupNorm", nn::GroupNorm(2, 4), {1, 4, 3});
  expect_refused("InstanceNorm", nn::InstanceNorm(3, {.affine = true}), {1, 3, 4});
  expect_refused("PReLU", nn::PReLU(), {4, 3});
  expect_refused("RNN", nn::RNN(3, 2), {5, 1, 3});
  expect_refused("LSTM", nn::LSTM(3, 2), {5, 1, 3});
  expect_refused("GRU", nn::GRU(3, 2), {5, 1, 3});
  expect_refused("RNNCell", nn::RNNCell(3, 2), {1, 3});
  expect_refused("LSTMCell", nn::LSTMCell(3, 2), {1, 3});
  expect_refused("GRUCell", nn::GRUCell(3, 2), {1, 3});
  expect_refused("MultiheadAttention", nn::MultiheadAttention(4, 2), {1, 3, 4});
  expect_refused("MultiheadAttention", nn::TransformerEncoderLayer(4, 2), {1, 3, 4});
  expect_refused("LayerNorm", nn::TransformerEncoderLayer(4, 2, {.norm_first = true}), {1, 3, 4});
  expect_refused("Linear", models::Mlp({3, 4, 2}), {5, 3});
  expect_refused("Conv2d", models::LeNet(), {1, 1, 28, 28});
}

TEST(NnDtype, StatesAndKeysAreInputsToo) {
  const Tensor x = zeros({5, 1, 3}), state = zeros({1, 1, 2}, float64);
  EXPECT_THROW(nn::GRU(3, 2)(x, state), DTypeError);
  EXPECT_THROW(nn::LSTM(3, 2)(x, state), DTypeError);
  EXPECT_THROW(nn::LSTM(3, 2)(x, state.to(float32), state), DTypeError);
  EXPECT_THROW(nn::GRUCell(3, 2)(zeros({1, 3}), zeros({1, 2}, float64)), DTypeError);
  const Tensor query = zeros({1, 3, 4}), memory = zeros({1, 3, 4}, float64);
  EXPECT_THROW(nn::MultiheadAttention(4, 2)(query, memory, memory), DTypeError);
  EXPECT_THROW(nn::MultiheadAttention(4, 2)(query, query, memory), DTypeError);
  EXPECT_THROW(nn::TransformerDecoderLayer(4, 2)(query, memory), DTypeError);
}

TEST(NnDtype, ABatchNormThatRefusesCountsNothing) {
  nn::BatchNorm1d norm(3);
  EXPECT_THROW(norm(zeros({4, 3}, float64)), DTypeError);
  EXPECT_EQ(norm.num_batches_tracked.tensor().item<std::int64_t>(), 0);
}

TEST(NnDtype, LayersWithoutParametersTakeAll) {
  EXPECT_EQ(nn::LayerNorm(3, {.affine = false})(ones({4, 3}, float64)).dtype(), float64);
  EXPECT_EQ(nn::ReLU()(ones({4, 3}, float64)).dtype(), float64);
  // The functions promote.
  EXPECT_EQ(linear(ones({4, 3}, float64), ones({2, 3})).dtype(), float64);
}

TEST(NnDtype, AutocastMixesFloat32AndHalves) {
  const nn::Linear layer(3, 2);
  const nn::LayerNorm norm(2);
  const nn::GRU gru(2, 2);
  const Autocast half;
  const Tensor y = layer(ones({4, 3}));
  EXPECT_EQ(y.dtype(), bfloat16);
  norm(y);
  gru(y);
  layer(ones({4, 3}, float16));
  EXPECT_THROW(layer(ones({4, 3}, float64)), DTypeError);
}

TEST(NnDtype, AFloat64MaskDoesNotWidenAttention) {
  nn::MultiheadAttention attention(4, 2, {.dropout = 0.5});
  const nn::AttentionMasks masks{.mask = zeros({3, 3}, float64)};
  EXPECT_EQ(attention(zeros({1, 3, 4}), masks).dtype(), float32);
  attention.eval();
  EXPECT_EQ(attention(zeros({1, 3, 4}), masks).dtype(), float32);
}

}  // namespace
}  // namespace extensor
