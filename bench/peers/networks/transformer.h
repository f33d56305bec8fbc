// The sentence encoder of bench/networks/transformer.h in PyTorch's C++ API.
#pragma once

#include "peers/networks/encoder_layer.h"

namespace extensor::bench {

struct TorchSentenceEncoderImpl : torch::nn::Module {
  TorchSentenceEncoderImpl()
      : words(register_module("words", torch::nn::Embedding(1000, 256))),
        positions(register_module("positions", torch::nn::Embedding(128, 256))) {
    for (int k = 0; k < 6; ++k) {
      layers.push_back(register_module("layer" + std::to_string(k), EncoderLayer(256, 4, false)));
    }
  }
  torch::Tensor forward(const torch::Tensor& tokens) {
    torch::Tensor x = words(tokens) + positions(torch::arange(tokens.size(1), torch::kLong));
    for (EncoderLayer& layer : layers) x = layer(x);
    return x;
  }

  torch::nn::Embedding words, positions;
  std::vector<EncoderLayer> layers;
};
TORCH_MODULE(TorchSentenceEncoder);

}  // namespace extensor::bench
