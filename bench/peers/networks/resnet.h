// ResNet-18 in PyTorch's C++ API: torchvision's for large images, and with a 3 × 3 stem without
// pooling for 32 × 32.
#pragma once

#include <torch/torch.h>

namespace extensor::bench {

struct BlockImpl : torch::nn::Module {
  BlockImpl(std::int64_t in, std::int64_t out, std::int64_t stride)
      : conv1(register_module("conv1", convolution(in, out, 3, stride, 1))),
        bn1(register_module("bn1", torch::nn::BatchNorm2d(out))),
        conv2(register_module("conv2", convolution(out, out, 3, 1, 1))),
        bn2(register_module("bn2", torch::nn::BatchNorm2d(out))) {
    if (stride != 1 || in != out) {
      downsample = register_module(
          "downsample",
          torch::nn::Sequential(convolution(in, out, 1, stride, 0), torch::nn::BatchNorm2d(out)));
    }
  }
  static torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel,
                                       std::int64_t stride, std::int64_t padding) {
    return torch::nn::Conv2d(
        torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(padding).bias(false));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = bn2(conv2(torch::relu(bn1(conv1(x)))));
    return torch::relu(y + (downsample.is_empty() ? x : downsample->forward(x)));
  }
  torch::nn::Conv2d conv1;
  torch::nn::BatchNorm2d bn1;
  torch::nn::Conv2d conv2;
  torch::nn::BatchNorm2d bn2;
  torch::nn::Sequential downsample{nullptr};
};
TORCH_MODULE(Block);

inline torch::nn::Sequential torch_resnet18(bool small_images, std::int64_t classes) {
  using namespace torch::nn;
  Sequential model;
  if (small_images) {
    model->push_back(BlockImpl::convolution(3, 64, 3, 1, 1));
  } else {
    model->push_back(BlockImpl::convolution(3, 64, 7, 2, 3));
  }
  model->push_back(BatchNorm2d(64));
  model->push_back(ReLU());
  if (!small_images) model->push_back(MaxPool2d(MaxPool2dOptions(3).stride(2).padding(1)));
  for (Block& block : std::vector<Block>{Block(64, 64, 1), Block(64, 64, 1), Block(64, 128, 2),
                                         Block(128, 128, 1), Block(128, 256, 2), Block(256, 256, 1),
                                         Block(256, 512, 2), Block(512, 512, 1)}) {
    model->push_back(block);
  }
  model->push_back(AdaptiveAvgPool2d(1));
  model->push_back(Flatten());
  model->push_back(Linear(512, classes));
  return model;
}

}  // namespace extensor::bench
