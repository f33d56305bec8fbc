// The MobileNetV2 of bench/networks/mobilenet.h in PyTorch's C++ API.
#pragma once

#include <torch/torch.h>

namespace extensor::bench {

inline void torch_add_convolution_norm(torch::nn::Sequential& layers, std::int64_t in,
                                       std::int64_t out, std::int64_t kernel, std::int64_t stride,
                                       std::int64_t groups) {
  layers->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, kernel)
                                          .stride(stride)
                                          .padding((kernel - 1) / 2)
                                          .groups(groups)
                                          .bias(false)));
  layers->push_back(torch::nn::BatchNorm2d(out));
  layers->push_back(torch::nn::ReLU6(torch::nn::ReLU6Options().inplace(true)));
}

struct TorchInvertedResidualImpl : torch::nn::Module {
  TorchInvertedResidualImpl(std::int64_t in, std::int64_t out, std::int64_t stride,
                            std::int64_t expansion)
      : adds(stride == 1 && in == out) {
    const std::int64_t hidden = in * expansion;
    if (expansion != 1) torch_add_convolution_norm(conv, in, hidden, 1, 1, 1);
    torch_add_convolution_norm(conv, hidden, hidden, 3, stride, hidden);
    conv->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(hidden, out, 1).bias(false)));
    conv->push_back(torch::nn::BatchNorm2d(out));
    register_module("conv", conv);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return adds ? x + conv->forward(x) : conv->forward(x);
  }

  torch::nn::Sequential conv;
  bool adds;
};
TORCH_MODULE(TorchInvertedResidual);

struct TorchMobileNetImpl : torch::nn::Module {
  TorchMobileNetImpl() {
    struct Stage {
      std::int64_t expansion, channels, blocks, stride;
    };
    std::int64_t channels = 16;
    torch_add_convolution_norm(features, 3, channels, 3, 2, 1);
    for (const Stage& stage : {Stage{1, 8, 1, 1},
                               {6, 16, 2, 2},
                               {6, 16, 3, 2},
                               {6, 32, 4, 2},
                               {6, 48, 3, 1},
                               {6, 80, 3, 2},
                               {6, 160, 1, 1}}) {
      for (std::int64_t k = 0; k < stage.blocks; ++k) {
        features->push_back(TorchInvertedResidual(channels, stage.channels,
                                                  k == 0 ? stage.stride : 1, stage.expansion));
        channels = stage.channels;
      }
    }
    torch_add_convolution_norm(features, channels, 1280, 1, 1, 1);
    register_module("features", features);
    register_module("dropout", dropout);
    register_module("classifier", classifier);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return classifier(dropout(features->forward(x).mean({2, 3})));
  }

  torch::nn::Sequential features;
  torch::nn::Dropout dropout{0.2};
  torch::nn::Linear classifier{1280, 10};
};
TORCH_MODULE(TorchMobileNet);

}  // namespace extensor::bench
