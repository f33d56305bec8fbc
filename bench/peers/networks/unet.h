// The U-Net of bench/networks/unet.h in PyTorch's C++ API.
#pragma once

#include <torch/torch.h>

namespace extensor::bench {

inline torch::nn::Sequential torch_double_convolution(std::int64_t in, std::int64_t out) {
  using namespace torch::nn;
  const auto convolution = [](std::int64_t from, std::int64_t to) {
    return Conv2d(Conv2dOptions(from, to, 3).padding(1).bias(false));
  };
  const auto relu = [] { return ReLU(ReLUOptions().inplace(true)); };
  return Sequential(convolution(in, out), BatchNorm2d(out), relu(), convolution(out, out),
                    BatchNorm2d(out), relu());
}

struct TorchUNetImpl : torch::nn::Module {
  TorchUNetImpl() {
    std::int64_t in = 3;
    for (const std::int64_t channels : {16, 32, 64, 128, 256}) {
      down.push_back(register_module("down" + std::to_string(channels),
                                     torch_double_convolution(in, channels)));
      in = channels;
    }
    for (const std::int64_t channels : {128, 64, 32, 16}) {
      upsample.push_back(register_module(
          "upsample" + std::to_string(channels),
          torch::nn::ConvTranspose2d(
              torch::nn::ConvTranspose2dOptions(2 * channels, channels, 2).stride(2))));
      up.push_back(register_module("up" + std::to_string(channels),
                                   torch_double_convolution(2 * channels, channels)));
    }
    register_module("head", head);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    std::vector<torch::Tensor> skipped;
    torch::Tensor y = x;
    for (torch::nn::Sequential& block : down) {
      if (!skipped.empty()) y = torch::max_pool2d(y, 2);
      y = block->forward(y);
      skipped.push_back(y);
    }
    for (std::size_t k = 0; k < up.size(); ++k) {
      skipped.pop_back();
      y = up[k]->forward(torch::cat({skipped.back(), upsample[k](y)}, 1));
    }
    return head(y);
  }

  std::vector<torch::nn::Sequential> down;
  std::vector<torch::nn::ConvTranspose2d> upsample;
  std::vector<torch::nn::Sequential> up;
  torch::nn::Conv2d head{torch::nn::Conv2dOptions(16, 2, 1)};
};
TORCH_MODULE(TorchUNet);

}  // namespace extensor::bench
