// ResNet-50: torchvision's names, shapes and numbers of parameters, its initialization, training
// and evaluation, and the gradients of blocks compared with those of single ops.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "extensor/extensor.h"
#include "support/compare.h"

namespace extensor {
namespace {

using models::Bottleneck;
using models::ResidualBlock;
using models::ResNet50;

struct Entry {
  std::string name;
  Shape shape;
  bool operator==(const Entry&) const = default;
};
std::ostream& operator<<(std::ostream& stream, const Entry& entry) {
  return stream << entry.name << " " << entry.shape;
}
using Entries = std::vector<Entry>;

Entries entries(const nn::NamedTensors& list) {
  Entries result;
  for (const auto& [name, tensor] : list) result.push_back({name, tensor.shape()});
  return result;
}

// The entries of torchvision's resnet50().state_dict(), from its architecture: four stages of 3, 4,
// 6 and 3 bottlenecks, 64 to 512 wide, whose outputs are four times as wide.
struct Torchvision {
  Entries parameters, buffers;

  explicit Torchvision(std::int64_t classes = 1000) {
    convolution("conv1", 64, 3, 7);
    norm("bn1", 64);
    std::int64_t in = 64, width = 64;
    int stage = 1;
    for (int blocks : {3, 4, 6, 3}) {
      for (int k = 0; k < blocks; ++k) {
        const std::string block = "layer" + std::to_string(stage) + "." + std::to_string(k) + ".";
        convolution(block + "conv1", width, in, 1);
        norm(block + "bn1", width);
        convolution(block + "conv2", width, width, 3);
        norm(block + "bn2", width);
        convolution(block + "conv3", 4 * width, width, 1);
        norm(block + "bn3", 4 * width);
        if (k == 0) {
          convolution(block + "downsample.0", 4 * width, in, 1);
          norm(block + "downsample.1", 4 * width);
        }
        in = 4 * width;
      }
      width *= 2;
      ++stage;
    }
    parameters.push_back({"fc.weight", {classes, 2048}});
    parameters.push_back({"fc.bias", {classes}});
  }

 private:
  void convolution(const std::string& name, std::int64_t out, std::int64_t in, std::int64_t side) {
    parameters.push_back({name + ".weight", {out, in, side, side}});
  }
  void norm(const std::string& name, std::int64_t channels) {
    parameters.push_back({name + ".weight", {channels}});
    parameters.push_back({name + ".bias", {channels}});
    buffers.push_back({name + ".running_mean", {channels}});
    buffers.push_back({name + ".running_var", {channels}});
    buffers.push_back({name + ".num_batches_tracked", {}});
  }
};

TEST(ResNet50, HasTorchvisionsNamesAndShapes) {
  const ResNet50 model;
  const Torchvision expected;
  EXPECT_EQ(entries(model.named_parameters()), expected.parameters);
  EXPECT_EQ(entries(model.named_buffers()), expected.buffers);
  EXPECT_EQ(model.parameters().size(), 161U);
  EXPECT_EQ(model.parameter_count(), 25'557'032);
  EXPECT_EQ(model.named_buffers().size(), 159U);  // 53 norms
  for (const auto& [name, buffer] : model.named_buffers()) {
    EXPECT_EQ(buffer.dtype(), name.ends_with("num_batches_tracked") ? int64 : float32) << name;
  }
  const ResNet50 other({.classes = 7});
  EXPECT_EQ(entries(other.named_parameters()), Torchvision(7).parameters);
}

// torchvision's: N(0, 2 / (out · side²)) for convolutions, 1 and 0 for norms.
TEST(ResNet50, BeginsAsTorchvisions) {
  manual_seed(1);
  for (bool zero : {false, true}) {
    const ResNet50 model({.classes = 3, .zero_init_residual = zero});
    for (const auto& [name, tensor] : model.named_parameters()) {
      if (tensor.ndim() == 4) {
        const Shape& s = tensor.shape();
        const double deviation = std::sqrt(2.0 / static_cast<double>(s[0] * s[2] * s[3]));
        const double found = std::sqrt(mean(square(tensor.detach())).item<double>());
        EXPECT_NEAR(found / deviation, 1, 0.05) << name;
      } else if (!name.starts_with("fc.")) {
        const bool is_zero = name.ends_with("bias") || (zero && name.ends_with("bn3.weight"));
        EXPECT_TRUE(compare::identical(tensor.detach(), full(tensor.shape(), is_zero ? 0.F : 1.F)))
            << name;
      }
    }
  }
}

TEST(ResNet50, GivesScoresAndAGradientOfEveryParameter) {
  manual_seed(2);
  ResNet50 model({.classes = 5});
  const Tensor x = normal({2, 3, 64, 64}, 0, 1);
  const Tensor y = model(x);
  EXPECT_EQ(y.shape(), (Shape{2, 5}));
  cross_entropy(y, tensor({1, 4}, int64)).backward();
  for (const auto& [name, parameter] : model.named_parameters()) {
    ASSERT_TRUE(parameter.grad().defined()) << name;
    EXPECT_GT(norm(parameter.grad()).item<float>(), 0) << name;
  }
  for (const auto& [name, buffer] : model.named_buffers()) {
    if (name.ends_with("num_batches_tracked")) {
      EXPECT_EQ(buffer.item<std::int64_t>(), 1) << name;
    }
  }
  EXPECT_THROW(model(ones({2, 1, 64, 64})), ShapeError);
}

TEST(ResNet50, EvaluatesImagesOneByOne) {
  manual_seed(3);
  ResNet50 model({.classes = 5, .channels = 1, .small_images = true});
  model.eval();
  const NoGrad off;
  const Tensor x = normal({2, 1, 16, 16}, 0, 1), y = model(x);
  EXPECT_EQ(y.shape(), (Shape{2, 5}));
  EXPECT_TRUE(allclose(model(x.slice(0, 1, 2)), y.slice(0, 1, 2), 1e-4, 1e-5));
  EXPECT_EQ(model.bn1.num_batches_tracked.tensor().item<std::int64_t>(), 0);
}

// ---- blocks

// The same blocks without the fused op.
template <class Block>
Tensor around(const Block& block, const Tensor& x, const Tensor& y) {
  return relu(y + (block.downsample.size() == 0 ? x : block.downsample(x)));
}
Tensor unfused(const Bottleneck& block, const Tensor& x) {
  const Tensor y = relu(block.bn2(block.conv2(relu(block.bn1(block.conv1(x))))));
  return around(block, x, block.bn3(block.conv3(y)));
}
Tensor unfused(const ResidualBlock& block, const Tensor& x) {
  const Tensor y = relu(block.bn1(block.conv1(x)));
  return around(block, x, block.bn2(block.conv2(y)));
}

// Results, gradients and states.
template <class Block>
void expect_bits_of_single_ops(Block fused, std::int64_t in, bool training) {
  fused.train(training);
  const Block single = fused;
  const Tensor x = normal({3, in, 9, 9}, 0, 1).requires_grad_();
  const Tensor other = x.detach().clone().requires_grad_();
  const Tensor y = fused(x), expected = unfused(single, other);
  EXPECT_TRUE(compare::identical(y, expected));
  const Tensor g = normal(y.shape(), 0, 1);
  y.backward(g);
  expected.backward(g);
  EXPECT_TRUE(compare::identical(x.grad(), other.grad()));
  const auto list = fused.named_parameters(), others = single.named_parameters();
  for (std::size_t k = 0; k < list.size(); ++k) {
    EXPECT_TRUE(compare::identical(list[k].second.grad(), others[k].second.grad()))
        << list[k].first << " " << training;
  }
  const auto state = fused.state_dict(), other_state = single.state_dict();
  for (std::size_t k = 0; k < state.size(); ++k) {
    EXPECT_TRUE(compare::identical(state[k].second, other_state[k].second)) << state[k].first;
  }
}

TEST(ResNetBlocks, HaveTheBitsOfSingleOps) {
  for (bool training : {true, false}) {
    for (const auto& [in, stride] : {std::pair{16, 1}, {16, 2}, {6, 1}}) {
      manual_seed(4);
      expect_bits_of_single_ops(Bottleneck(in, 4, stride), in, training);
      expect_bits_of_single_ops(ResidualBlock(in, 16, stride), in, training);
    }
  }
}

// ---- states

// Loads torchvision's state: every entry is read, including the batch counts. States from before
// torchvision had these counts are rejected, unless strict is off.
TEST(ResNet50, LoadsAStateWithTorchvisionsNames) {
  manual_seed(5);
  const Torchvision names(3);
  NamedTensors weights, counts;
  for (const Entry& e : names.parameters) weights.emplace_back(e.name, normal(e.shape, 0, 0.02));
  for (const Entry& e : names.buffers) {
    if (e.name.ends_with("num_batches_tracked")) {
      counts.emplace_back(e.name, full(e.shape, 17, int64));
    } else {
      weights.emplace_back(e.name, uniform(e.shape, 0.5, 1.5));
    }
  }
  NamedTensors all = weights;
  all.insert(all.end(), counts.begin(), counts.end());
  const std::map<std::string, Tensor> expected(all.begin(), all.end());
  ResNet50 model({.classes = 3});
  EXPECT_THROW(model.load_state_dict(weights), ValueError);
  model.load_state_dict(weights, {.strict = false});
  EXPECT_EQ(model.bn1.num_batches_tracked.tensor().item<std::int64_t>(), 0);
  model.load_state_dict(all);
  const auto state = model.state_dict();
  EXPECT_EQ(state.size(), all.size());
  for (const auto& [name, tensor] : state) {
    EXPECT_TRUE(compare::identical(tensor.detach(), expected.at(name))) << name;
  }
}

}  // namespace
}  // namespace extensor
