// MobileNetV2 with half of the channels, torchvision's layers.
#pragma once

#include <extensor/extensor.h>

namespace extensor::bench {

// A convolution without bias, batch norm and ReLU6.
inline void add_convolution_norm(nn::Sequential& layers, std::int64_t in, std::int64_t out,
                                 std::int64_t kernel, std::int64_t stride, std::int64_t groups) {
  layers.push_back(
      nn::Conv2d(in, out, kernel,
                 {.stride = stride, .padding = (kernel - 1) / 2, .groups = groups, .bias = false}));
  layers.push_back(nn::BatchNorm2d(out));
  layers.push_back(nn::ReLU6());
}

// A 1 × 1 convolution to more channels, a depthwise one, and a 1 × 1 convolution to few channels
// without an activation; added to x where shapes agree.
struct InvertedResidual : nn::Module<InvertedResidual> {
  InvertedResidual(std::int64_t in, std::int64_t out, std::int64_t stride, std::int64_t expansion)
      : adds(stride == 1 && in == out) {
    const std::int64_t hidden = in * expansion;
    if (expansion != 1) add_convolution_norm(conv, in, hidden, 1, 1, 1);
    add_convolution_norm(conv, hidden, hidden, 3, stride, hidden);
    conv.push_back(nn::Conv2d(hidden, out, 1, {.bias = false}));
    conv.push_back(nn::BatchNorm2d(out));
  }
  Tensor forward(const Tensor& x) const { return adds ? x + conv(x) : conv(x); }
  void visit(nn::Walker& walk) { walk("conv", conv); }

  nn::Sequential conv;
  bool adds;
};

struct MobileNet : nn::Module<MobileNet> {
  MobileNet() {
    struct Stage {
      std::int64_t expansion, channels, blocks, stride;
    };
    std::int64_t channels = 16;
    add_convolution_norm(features, 3, channels, 3, 2, 1);
    for (const Stage& stage : {Stage{1, 8, 1, 1},
                               {6, 16, 2, 2},
                               {6, 16, 3, 2},
                               {6, 32, 4, 2},
                               {6, 48, 3, 1},
                               {6, 80, 3, 2},
                               {6, 160, 1, 1}}) {
      for (std::int64_t k = 0; k < stage.blocks; ++k) {
        features.push_back(
            InvertedResidual(channels, stage.channels, k == 0 ? stage.stride : 1, stage.expansion));
        channels = stage.channels;
      }
    }
    add_convolution_norm(features, channels, 1280, 1, 1, 1);
  }
  // [n, 3, height, width] → [n, 10]
  Tensor forward(const Tensor& x) const {
    return classifier(dropout(mean(features(x), Axes{2, 3})));
  }
  void visit(nn::Walker& walk) {
    walk("features", features)("dropout", dropout)("classifier", classifier);
  }

  nn::Sequential features;
  nn::Dropout dropout{0.2};
  nn::Linear classifier{1280, 10};
};

}  // namespace extensor::bench
