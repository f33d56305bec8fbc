// U-Net for two classes of pixels: 16 channels at the full resolution, 256 at a sixteenth.
#pragma once

#include <extensor/extensor.h>

namespace extensor::bench {

// Two 3 × 3 convolutions, each with batch norm and ReLU.
struct DoubleConvolution : nn::Module<DoubleConvolution> {
  DoubleConvolution(std::int64_t in, std::int64_t out)
      : conv1(in, out, 3, {.padding = 1, .bias = false}),
        bn1(out),
        conv2(out, out, 3, {.padding = 1, .bias = false}),
        bn2(out) {}
  Tensor forward(const Tensor& x) const {
    return bn2.forward_add_relu(conv2(bn1.forward_add_relu(conv1(x))));
  }
  void visit(nn::Walker& walk) { walk("conv1", conv1)("bn1", bn1)("conv2", conv2)("bn2", bn2); }

  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Conv2d conv2;
  nn::BatchNorm2d bn2;
};

struct UNet : nn::Module<UNet> {
  UNet() {
    std::int64_t in = 3;
    for (const std::int64_t channels : {16, 32, 64, 128, 256}) {
      down.push_back(DoubleConvolution(in, channels));
      in = channels;
    }
    for (const std::int64_t channels : {128, 64, 32, 16}) {
      upsample.push_back(nn::ConvTranspose2d(2 * channels, channels, 2, {.stride = 2}));
      up.push_back(DoubleConvolution(2 * channels, channels));
    }
  }
  // [n, 3, height, width] → [n, 2, height, width]
  Tensor forward(const Tensor& x) const {
    std::vector<Tensor> skipped;
    Tensor y = x;
    for (const DoubleConvolution& block : down) {
      if (!skipped.empty()) y = max_pool2d(y, 2);
      y = block(y);
      skipped.push_back(y);
    }
    for (std::size_t k = 0; k < up.size(); ++k) {
      skipped.pop_back();
      y = up[k](concatenate({skipped.back(), upsample[k](y)}, 1));
    }
    return head(y);
  }
  void visit(nn::Walker& walk) { walk("down", down)("upsample", upsample)("up", up)("head", head); }

  std::vector<DoubleConvolution> down;
  std::vector<nn::ConvTranspose2d> upsample;
  std::vector<DoubleConvolution> up;
  nn::Conv2d head{16, 2, 1};
};

}  // namespace extensor::bench
