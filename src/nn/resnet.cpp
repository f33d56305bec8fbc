// ResNet-18 and ResNet-50, with torchvision's parameter names.
#include "extensor/autograd.h"
#include "extensor/initializers.h"
#include "extensor/models.h"
#include "extensor/pooling.h"

namespace extensor::models {

ResidualBlock::ResidualBlock(std::int64_t in_channels, std::int64_t channels, std::int64_t stride)
    : conv1(in_channels, channels, 3, {.stride = stride, .padding = 1, .bias = false}),
      bn1(channels),
      conv2(channels, channels, 3, {.padding = 1, .bias = false}),
      bn2(channels) {
  if (stride == 1 && in_channels == channels) return;
  downsample.push_back(nn::Conv2d(in_channels, channels, 1, {.stride = stride, .bias = false}));
  downsample.push_back(nn::BatchNorm2d(channels));
}

Tensor ResidualBlock::forward(const Tensor& x) const {
  const Tensor y = conv2(bn1.forward_add_relu(conv1(x)));
  return bn2.forward_add_relu(y, downsample.size() == 0 ? x : downsample(x));
}

void ResidualBlock::visit(nn::Walker& walk) {
  walk("conv1", conv1)("bn1", bn1)("conv2", conv2)("bn2", bn2);
  if (downsample.size() != 0) walk("downsample", downsample);
}

ResNet18::ResNet18(const ResNetOptions& options)
    : conv1(options.channels, 64, options.small_images ? 3 : 7,
            {.stride = options.small_images ? 1 : 2,
             .padding = options.small_images ? 1 : 3,
             .bias = false}),
      bn1(64),
      layer1{ResidualBlock(64, 64, 1), ResidualBlock(64, 64, 1)},
      layer2{ResidualBlock(64, 128, 2), ResidualBlock(128, 128, 1)},
      layer3{ResidualBlock(128, 256, 2), ResidualBlock(256, 256, 1)},
      layer4{ResidualBlock(256, 512, 2), ResidualBlock(512, 512, 1)},
      fc(512, options.classes),
      small_images_(options.small_images) {}

Tensor ResNet18::forward(const Tensor& x) const {
  Tensor y = bn1.forward_add_relu(conv1(x));
  if (!small_images_) y = max_pool2d(y, 3, {.stride = 2, .padding = 1});
  for (const auto* stage : {&layer1, &layer2, &layer3, &layer4}) {
    for (const ResidualBlock& block : *stage) y = block(y);
  }
  return fc(adaptive_avg_pool2d(y, 1).reshape({y.size(0), 512}));
}

void ResNet18::visit(nn::Walker& walk) {
  walk("conv1", conv1)("bn1", bn1)("layer1", layer1)("layer2", layer2)("layer3", layer3)(
      "layer4", layer4)("fc", fc);
}

// ---- ResNet-50

namespace {

constexpr std::int64_t expansion = 4;  // output channels of a block per unit of width

nn::ModuleList<Bottleneck> stage(std::int64_t in_channels, std::int64_t width, int blocks,
                                 std::int64_t stride) {
  nn::ModuleList<Bottleneck> list;
  for (int k = 0; k < blocks; ++k) {
    list.push_back(k == 0 ? Bottleneck(in_channels, width, stride)
                          : Bottleneck(expansion * width, width, 1));
  }
  return list;
}

}  // namespace

Bottleneck::Bottleneck(std::int64_t in_channels, std::int64_t width, std::int64_t stride)
    : conv1(in_channels, width, 1, {.bias = false}),
      bn1(width),
      conv2(width, width, 3, {.stride = stride, .padding = 1, .bias = false}),
      bn2(width),
      conv3(width, expansion * width, 1, {.bias = false}),
      bn3(expansion * width) {
  if (stride == 1 && in_channels == expansion * width) return;
  downsample.push_back(
      nn::Conv2d(in_channels, expansion * width, 1, {.stride = stride, .bias = false}));
  downsample.push_back(nn::BatchNorm2d(expansion * width));
}

Tensor Bottleneck::forward(const Tensor& x) const {
  const Tensor y = conv3(bn2.forward_add_relu(conv2(bn1.forward_add_relu(conv1(x)))));
  return bn3.forward_add_relu(y, downsample.size() == 0 ? x : downsample(x));
}

void Bottleneck::visit(nn::Walker& walk) {
  walk("conv1", conv1)("bn1", bn1)("conv2", conv2)("bn2", bn2)("conv3", conv3)("bn3", bn3);
  if (downsample.size() != 0) walk("downsample", downsample);
}

ResNet50::ResNet50(const ResNet50Options& options)
    : conv1(options.channels, 64, options.small_images ? 3 : 7,
            {.stride = options.small_images ? 1 : 2,
             .padding = options.small_images ? 1 : 3,
             .bias = false}),
      bn1(64),
      layer1(stage(64, 64, 3, 1)),
      layer2(stage(expansion * 64, 128, 4, 2)),
      layer3(stage(expansion * 128, 256, 6, 2)),
      layer4(stage(expansion * 256, 512, 3, 2)),
      fc(expansion * 512, options.classes),
      small_images_(options.small_images) {
  const NoGrad off;
  for (auto& [name, tensor] : named_parameters()) {
    if (tensor.ndim() == 4) {
      tensor.copy_from(kaiming_normal(tensor.shape(), 0, FanMode::fan_out, Nonlinearity::relu));
    } else if (options.zero_init_residual && name.ends_with("bn3.weight")) {
      tensor.fill(0);
    }
  }
}

Tensor ResNet50::forward(const Tensor& x) const {
  Tensor y = bn1.forward_add_relu(conv1(x));
  if (!small_images_) y = max_pool2d(y, 3, {.stride = 2, .padding = 1});
  for (const auto* stage : {&layer1, &layer2, &layer3, &layer4}) {
    for (const Bottleneck& block : *stage) y = block(y);
  }
  return fc(adaptive_avg_pool2d(y, 1).reshape({y.size(0), y.size(1)}));
}

void ResNet50::visit(nn::Walker& walk) {
  walk("conv1", conv1)("bn1", bn1)("layer1", layer1)("layer2", layer2)("layer3", layer3)(
      "layer4", layer4)("fc", fc);
}

}  // namespace extensor::models
