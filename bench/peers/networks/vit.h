// The vision transformer of bench/networks/vit.h in PyTorch's C++ API.
#pragma once

#include "peers/networks/encoder_layer.h"

namespace extensor::bench {

struct TorchVitImpl : torch::nn::Module {
  TorchVitImpl()
      : patches(register_module("patches",
                                torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 192, 4).stride(4)))),
        token(register_parameter("token", torch::randn({1, 1, 192}) * 0.02)),
        positions(register_parameter("positions", torch::randn({1, 65, 192}) * 0.02)),
        norm(register_module("norm", EncoderLayerImpl::norm(192))),
        head(register_module("head", torch::nn::Linear(192, 10))) {
    for (int k = 0; k < 6; ++k) {
      layers.push_back(register_module("layer" + std::to_string(k), EncoderLayer(192, 3, true)));
    }
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor embedded = patches(x).flatten(2).transpose(1, 2);
    torch::Tensor y = torch::cat({token.expand({x.size(0), -1, -1}), embedded}, 1) + positions;
    for (EncoderLayer& layer : layers) y = layer(y);
    return head(norm(y.select(1, 0)));
  }

  torch::nn::Conv2d patches;
  torch::Tensor token, positions;
  std::vector<EncoderLayer> layers;
  torch::nn::LayerNorm norm;
  torch::nn::Linear head;
};
TORCH_MODULE(TorchVit);

}  // namespace extensor::bench
