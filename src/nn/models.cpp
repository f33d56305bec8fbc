#include "extensor/models.h"

#include <cmath>

#include "core/check.h"
#include "extensor/autograd.h"
#include "extensor/creation.h"
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

// ---- GPT

GptOptions gpt2_options() {
  return {.vocabulary = 50257,
          .block = 1024,
          .layers = 12,
          .heads = 12,
          .width = 768,
          .dropout = 0.1,
          .activation = GptActivation::gelu_tanh,
          .tied = true};
}

namespace {

nn::LayerNormOptions norm_options(const GptOptions& options) {
  return {.eps = options.eps, .bias = options.bias};
}

}  // namespace

GptBlock::GptBlock(const GptOptions& options)
    : ln_1(options.width, norm_options(options)),
      attn(options.width, options.heads,
           {.dropout = options.attention_dropout.value_or(options.dropout), .bias = options.bias}),
      ln_2(options.width, norm_options(options)),
      fc(options.width, 4 * options.width, {.bias = options.bias}),
      proj(4 * options.width, options.width, {.bias = options.bias}),
      dropout(options.residual_dropout.value_or(options.dropout)),
      activation_(options.activation) {}

Tensor GptBlock::forward(const Tensor& x) const {
  const Tensor attended = dropout(attn(ln_1(x), nn::AttentionMasks{.causal = true}));
  const auto [y, normalized] = ln_2.forward_add(attended, x);
  const Tensor hidden = fc(normalized);
  return y + dropout(proj(activation_ == GptActivation::gelu ? gelu(hidden) : gelu_tanh(hidden)));
}

void GptBlock::visit(nn::Walker& walk) {
  walk("ln_1", ln_1)("attn", attn)("ln_2", ln_2)("fc", fc)("proj", proj)("dropout", dropout);
}

Gpt::Gpt(const GptOptions& options)
    : wte(options.vocabulary, options.width),
      wpe(options.block, options.width),
      dropout(options.embedding_dropout.value_or(options.dropout)),
      ln_f(options.width, norm_options(options)),
      lm_head(options.width, options.vocabulary, {.bias = false}),
      options_(options) {
  if (options.tied) lm_head.weight.tie_to(wte.weight);
  for (std::int64_t k = 0; k < options.layers; ++k) h.push_back(GptBlock(options));
  const NoGrad off;
  const double scale = 0.02 / std::sqrt(2.0 * static_cast<double>(options.layers));
  for (auto& [name, tensor] : named_parameters()) {
    if (name.ends_with("bias")) {
      tensor.fill(0);
    } else if (tensor.ndim() == 2) {
      const bool ends = name.ends_with("proj.weight");
      tensor.copy_from(normal(tensor.shape(), 0, ends ? scale : 0.02));
    }
  }
}

Tensor Gpt::forward(const Tensor& tokens) const {
  if (tokens.ndim() != 2 || tokens.size(1) > options_.block) {
    throw ShapeError(message("Gpt: tokens are ", tokens.shape(),
                             ", must be [batch, length] with "
                             "length up to ",
                             options_.block));
  }
  Tensor x = dropout(wte(tokens) + wpe(arange(tokens.size(1), tokens.device())));
  for (const GptBlock& block : h) x = block(x);
  return lm_head(ln_f(x));
}

void Gpt::visit(nn::Walker& walk) {
  walk("wte", wte)("wpe", wpe)("dropout", dropout)("h", h)("ln_f", ln_f)("lm_head", lm_head);
}

}  // namespace extensor::models
