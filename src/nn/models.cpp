#include "extensor/models.h"

#include "core/check.h"
#include "extensor/elementwise.h"
#include "extensor/pooling.h"

namespace extensor::models {

using extensor::detail::message;

Mlp::Mlp(const std::vector<std::int64_t>& widths) {
  if (widths.size() < 2) {
    throw ValueError(message("Mlp: ", widths.size(), " widths, must be 2 or more"));
  }
  for (std::size_t k = 0; k + 1 < widths.size(); ++k) {
    layers.push_back(nn::Linear(widths[k], widths[k + 1]));
  }
}

Tensor Mlp::forward(const Tensor& x) const {
  Tensor y = x.ndim() > 2 ? x.reshape({x.size(0), -1}) : x;
  std::size_t left = layers.size();
  for (const nn::Linear& layer : layers) {
    y = layer(y, --left == 0 ? Activation::none : Activation::relu);
  }
  return y;
}

namespace {

// The number of features after the second pooling.
std::int64_t lenet_features(const LeNetOptions& options) {
  constexpr std::int64_t least = 12, channels = 16;
  if (options.height < least || options.width < least) {
    throw ValueError(message("LeNet: images are ", options.height, " × ", options.width,
                             " (allowed: ", least, " or more each)"));
  }
  const auto left = [](std::int64_t size) { return (size / 2 - 4) / 2; };
  return channels * left(options.height) * left(options.width);
}

}  // namespace

LeNet::LeNet(const LeNetOptions& options)
    : conv1(options.channels, 6, 5, {.padding = 2}),
      conv2(6, 16, 5),
      fc1(lenet_features(options), 120),
      fc2(120, 84),
      fc3(84, options.classes) {}

void LeNet::visit(nn::Walker& walk) {
  walk("conv1", conv1)("conv2", conv2)("fc1", fc1)("fc2", fc2)("fc3", fc3);
}

Tensor LeNet::forward(const Tensor& x) const {
  Tensor y = max_pool2d(relu(conv1(x)), 2);
  y = max_pool2d(relu(conv2(y)), 2);
  y = y.reshape({y.size(0), -1});
  return fc3(fc2(fc1(y, Activation::relu), Activation::relu));
}

// ---- VGG

namespace {

nn::AnyLayer vgg_classifier(const VggOptions& options) {
  if (options.small_images) return nn::Linear(512, options.classes);
  return nn::Sequential{nn::Linear(512 * 7 * 7, 4096),    nn::ReLU(), nn::Dropout(),
                        nn::Linear(4096, 4096),           nn::ReLU(), nn::Dropout(),
                        nn::Linear(4096, options.classes)};
}

}  // namespace

Vgg16::Vgg16(const VggOptions& options)
    : classifier(vgg_classifier(options)), small_images_(options.small_images) {
  struct Stage {
    std::int64_t channels;
    int convolutions;
  };
  std::int64_t channels = options.channels;
  for (const Stage& stage : {Stage{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}}) {
    for (int k = 0; k < stage.convolutions; ++k) {
      features.push_back(nn::Conv2d(channels, stage.channels, 3, {.padding = 1}));
      features.push_back(nn::BatchNorm2d(stage.channels));
      features.push_back(nn::ReLU());
      channels = stage.channels;
    }
    features.push_back(nn::MaxPool2d(2));
  }
}

Tensor Vgg16::forward(const Tensor& x) const {
  const Tensor y = adaptive_avg_pool2d(features(x), small_images_ ? 1 : 7);
  return classifier(y.reshape({y.size(0), -1}));
}

void Vgg16::visit(nn::Walker& walk) { walk("features", features)("classifier", classifier); }

}  // namespace extensor::models
