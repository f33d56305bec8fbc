// Common networks, as modules with PyTorch's parameter names.
#pragma once

#include <optional>

#include "extensor/export.h"
#include "extensor/nn.h"

EXTENSOR_BEGIN_API

namespace extensor::models {

// Linear layers with ReLU between them: widths {784, 512, 256, 10}.
class Mlp final : public nn::Module<Mlp> {
 public:
  explicit Mlp(const std::vector<std::int64_t>& widths);
  Tensor forward(const Tensor& x) const;  // [n, …]: flattened to the first width
  void visit(nn::Walker& walk) { walk("layers", layers); }

  nn::ModuleList<nn::Linear> layers;
};

struct LeNetOptions {
  std::int64_t classes = 10;
  std::int64_t channels = 1;
  std::int64_t height = 28, width = 28;
};
// LeNet-5 with ReLU and max pooling. ValueError for images smaller than 12 × 12.
class LeNet final : public nn::Module<LeNet> {
 public:
  explicit LeNet(const LeNetOptions& options = {});
  Tensor forward(const Tensor& x) const;  // [n, channels, height, width] → [n, classes]
  void visit(nn::Walker& walk);

  nn::Conv2d conv1, conv2;
  nn::Linear fc1, fc2, fc3;
};

// Two convolutions with a skip connection.
class ResidualBlock final : public nn::Module<ResidualBlock> {
 public:
  ResidualBlock(std::int64_t in_channels, std::int64_t channels, std::int64_t stride);
  Tensor forward(const Tensor& x) const;
  void visit(nn::Walker& walk);

  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Conv2d conv2;
  nn::BatchNorm2d bn2;
  nn::Sequential downsample;  // empty where shapes agree
};

struct ResNetOptions {
  std::int64_t classes = 10;
  std::int64_t channels = 3;
  bool small_images = true;  // 32 × 32: a 3 × 3 stem without pooling
};
class ResNet18 final : public nn::Module<ResNet18> {
 public:
  explicit ResNet18(const ResNetOptions& options = {});
  Tensor forward(const Tensor& x) const;  // [n, channels, height, width] → [n, classes]
  void visit(nn::Walker& walk);

  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::ModuleList<ResidualBlock> layer1, layer2, layer3, layer4;
  nn::Linear fc;

 private:
  bool small_images_;
};

struct ResNet50Options {
  std::int64_t classes = 1000;
  std::int64_t channels = 3;
  bool small_images = false;  // 32 × 32: a 3 × 3 stem without pooling
  // Sets the scale of each block's last norm to 0, so that every block starts as the identity.
  bool zero_init_residual = false;
};
// A 1 × 1, a 3 × 3 and a 1 × 1 convolution with 4 · width output channels, and a skip connection.
class Bottleneck final : public nn::Module<Bottleneck> {
 public:
  Bottleneck(std::int64_t in_channels, std::int64_t width, std::int64_t stride);
  Tensor forward(const Tensor& x) const;
  void visit(nn::Walker& walk);

  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Conv2d conv2;  // has the stride, as in torchvision
  nn::BatchNorm2d bn2;
  nn::Conv2d conv3;
  nn::BatchNorm2d bn3;
  nn::Sequential downsample;  // empty where shapes agree
};
// ResNet-50 with torchvision's parameter names, order and initialization: 25,557,032 parameters in
// 161 tensors for 1000 classes. Its state_dict() has the keys of torchvision's, running statistics
// and "num_batches_tracked" included.
class ResNet50 final : public nn::Module<ResNet50> {
 public:
  explicit ResNet50(const ResNet50Options& options = {});
  Tensor forward(const Tensor& x) const;  // [n, channels, height, width] → [n, classes]
  void visit(nn::Walker& walk);

  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::ModuleList<Bottleneck> layer1, layer2, layer3, layer4;
  nn::Linear fc;

 private:
  bool small_images_;
};

struct VggOptions {
  std::int64_t classes = 10;
  std::int64_t channels = 3;
  bool small_images = true;  // 32 × 32: one linear layer after the convolutions
};
// VGG-16 with batch norm. The classifier for small images is "classifier.weight"; the other one has
// torchvision's three linear layers with dropout, "classifier.0.weight" and so on.
class Vgg16 final : public nn::Module<Vgg16> {
 public:
  explicit Vgg16(const VggOptions& options = {});
  Tensor forward(const Tensor& x) const;  // [n, channels, height, width] → [n, classes]
  void visit(nn::Walker& walk);

  nn::Sequential features;
  nn::AnyLayer classifier;

 private:
  bool small_images_;
};

enum class GptActivation : std::uint8_t { gelu, gelu_tanh };

struct GptOptions {
  std::int64_t vocabulary = 65;
  std::int64_t block = 64;  // the longest sequence
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  std::int64_t width = 128;
  double dropout = 0;  // the default of the three below
  std::optional<double> embedding_dropout = {};
  std::optional<double> attention_dropout = {};  // of the weights of attention
  std::optional<double> residual_dropout = {};   // where residual branches end
  GptActivation activation = GptActivation::gelu;
  bool bias = true;  // of linear layers and norms; the output projection has none
  double eps = 1e-5;
  bool tied = false;  // the output projection is the token embedding's weight
};
// The options of GPT-2 with 124,439,808 parameters; change them for the larger models.
GptOptions gpt2_options();

// One block of a GPT: causal attention, then a perceptron, each after a norm.
class GptBlock final : public nn::Module<GptBlock> {
 public:
  explicit GptBlock(const GptOptions& options);
  Tensor forward(const Tensor& x) const;
  Tensor forward(const Tensor& x, nn::KeyValueCache& cache) const;
  void visit(nn::Walker& walk);

  nn::LayerNorm ln_1;
  nn::MultiheadAttention attn;
  nn::LayerNorm ln_2;
  nn::Linear fc, proj;
  nn::Dropout dropout;

 private:
  template <class Attention>
  Tensor run(const Tensor& x, const Attention& attention) const;

  GptActivation activation_;
};

// The keys and values of all layers of a Gpt. A filled cache belongs to the model that filled it
// and to the weights which that model had; an empty one can be used by any model. A copy has
// separate memory.
class GptCache {
 public:
  std::int64_t length() const { return length_; }  // tokens in the cache
  // Drops the positions from `length` on. ValueError unless it is between 0 and length().
  void truncate(std::int64_t length);
  void clear() { truncate(0); }

 private:
  friend class Gpt;
  // Called before tokens are appended. Throws ValueError if another model filled the cache.
  void prepare(const nn::detail::Walk& model, std::size_t layers, std::int64_t context);

  std::int64_t length_ = 0;
  std::vector<nn::KeyValueCache> layers_;
  nn::detail::ParameterVersions model_;
};

// A GPT with learned positions, initialized as GPT-2: N(0, 0.02), divided by √(2 · layers) where
// residual branches end, biases 0.
class Gpt final : public nn::Module<Gpt> {
 public:
  explicit Gpt(const GptOptions& options = {});
  Tensor forward(const Tensor& tokens) const;  // int64 [n, length] → logits [n, length, vocabulary]
  // The same for the tokens that follow those in the cache, to which these are appended:
  //   GptCache cache;
  //   const NoGrad off;
  //   model(prompt, cache);                // [n, 10, vocabulary]
  //   model(next, cache);                  // [n, 1, vocabulary], at position 10
  // ValueError if gradients are recorded, if another model filled the cache, if the weights have
  // changed since then, or if more than `block` tokens come together; ShapeError or DTypeError if
  // the batch or the dtype is another one. The cache is unchanged then; but a device that reports
  // tokens outside the vocabulary late (docs/devices.md) has counted them.
  Tensor forward(const Tensor& tokens, GptCache& cache) const;
  // The logits of the token after the last one, [n, vocabulary], without those of the others.
  Tensor next_logits(const Tensor& tokens) const;
  Tensor next_logits(const Tensor& tokens, GptCache& cache) const;
  void visit(nn::Walker& walk);
  const GptOptions& options() const { return options_; }

  nn::Embedding wte, wpe;
  nn::Dropout dropout;
  nn::ModuleList<GptBlock> h;
  nn::LayerNorm ln_f;
  nn::Linear lm_head;

 private:
  Tensor features(const Tensor& tokens) const;  // [n, length, width], before ln_f
  Tensor features(const Tensor& tokens, GptCache& cache) const;
  Tensor logits_of(const Tensor& features) const;
  Tensor next_logits_of(const Tensor& features) const;

  GptOptions options_;
};

}  // namespace extensor::models

EXTENSOR_END_API
