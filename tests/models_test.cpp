// LeNet of any size; VGG-16: names, shapes, numbers of parameters, a training step.
// pytorch_exchange_test compares the other networks with PyTorch's.
#include "extensor/models.h"

#include <gtest/gtest.h>

#include "extensor/extensor.h"

namespace extensor {
namespace {

std::vector<std::string> names(const nn::NamedTensors& list) {
  std::vector<std::string> result;
  for (const auto& [name, tensor] : list) result.push_back(name);
  return result;
}

TEST(LeNet, ReadsPicturesOfAnySize) {
  EXPECT_EQ(models::LeNet().parameter_count(), 61'706);
  EXPECT_EQ(models::LeNet()(zeros({2, 1, 28, 28})).shape(), (Shape{2, 10}));
  const models::LeNet other({.classes = 3, .channels = 3, .height = 12, .width = 41});
  EXPECT_EQ(other.fc1.weight.tensor().shape(), (Shape{120, 16 * 1 * 8}));
  EXPECT_EQ(other(zeros({2, 3, 12, 41})).shape(), (Shape{2, 3}));
  EXPECT_THROW(models::LeNet({.height = 11}), ValueError);
  EXPECT_THROW(models::LeNet({.width = 0}), ValueError);
}

TEST(Gpt, IsSummedUpWithoutNamespaces) {
  const std::string text = models::Gpt({.layers = 1}).summary();
  EXPECT_NE(text.find("ModuleList<GptBlock>"), std::string::npos) << text;
  EXPECT_EQ(text.find("::"), std::string::npos) << text;
}

TEST(Vgg16, HasTorchvisionsNames) {
  const models::Vgg16 model;
  std::vector<std::string> parameters, buffers;
  // Each convolution is followed by its norm, a ReLU and, at the end of a stage, a pooling.
  for (const int k : {0, 3, 7, 10, 14, 17, 20, 24, 27, 30, 34, 37, 40}) {
    for (const int layer : {k, k + 1}) {
      parameters.push_back("features." + std::to_string(layer) + ".weight");
      parameters.push_back("features." + std::to_string(layer) + ".bias");
    }
    for (const char* buffer : {".running_mean", ".running_var", ".num_batches_tracked"}) {
      buffers.push_back("features." + std::to_string(k + 1) + buffer);
    }
  }
  parameters.emplace_back("classifier.weight");
  parameters.emplace_back("classifier.bias");
  EXPECT_EQ(names(model.named_parameters()), parameters);
  EXPECT_EQ(names(model.named_buffers()), buffers);
}

TEST(Vgg16, HasAsManyParametersAsItShould) {
  // 9 · (3·64 + 64² + 64·128 + 128² + 128·256 + 2·256² + 256·512 + 5·512²) weights, 4224 channels
  // with a bias, a scale and an offset each, and the classifier.
  constexpr std::int64_t convolutions = 14'710'464, channels = 4224;
  EXPECT_EQ(models::Vgg16().parameter_count(), convolutions + 3 * channels + 512 * 10 + 10);
  EXPECT_EQ(models::Vgg16({.classes = 7, .channels = 1}).parameter_count(),
            convolutions - 9 * 2 * 64 + 3 * channels + 512 * 7 + 7);
  const models::Vgg16 large({.classes = 1000, .small_images = false});
  EXPECT_EQ(large.parameter_count(), 138'365'992);  // torchvision's vgg16_bn
  EXPECT_EQ(names(large.named_parameters()).back(), "classifier.6.bias");
}

TEST(Vgg16, GivesAScoreForEachClass) {
  manual_seed(1);
  models::Vgg16 model({.classes = 5, .channels = 1});
  model.eval();
  const NoGrad off;
  EXPECT_EQ(model(ones({2, 1, 32, 32})).shape(), (Shape{2, 5}));
  EXPECT_EQ(model(ones({1, 1, 40, 64})).shape(), (Shape{1, 5}));
  EXPECT_THROW(model(ones({2, 3, 32, 32})), ShapeError);
}

TEST(Vgg16, Learns) {
  manual_seed(2);
  models::Vgg16 model;
  const Tensor x = normal({4, 3, 32, 32}, 0, 1), y = tensor({3, 1, 4, 1}, int64);
  optim::SGD optimizer(model.parameters(), {.lr = 0.01});
  std::vector<float> losses;
  for (int step = 0; step < 4; ++step) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(model(x), y);
    losses.push_back(loss.item<float>());
    loss.backward();
    for (const auto& [name, parameter] : model.named_parameters()) {
      ASSERT_TRUE(parameter.grad().defined()) << name;
    }
    optimizer.step();
  }
  EXPECT_LT(losses[1], losses[0]);
  EXPECT_LT(losses.back(), losses[1]);
}

TEST(Vgg16, IsCopiedAndLoaded) {
  manual_seed(3);
  models::Vgg16 model({.classes = 3}), other({.classes = 3});
  other.load_state_dict(model.state_dict());
  model.eval();
  other.eval();
  const NoGrad off;
  const Tensor x = normal({1, 3, 32, 32}, 0, 1), y = model(x);
  EXPECT_EQ(other(x).to_vector<float>(), y.to_vector<float>());
  models::Vgg16 copy = model;
  for (auto& [name, parameter] : copy.named_parameters()) parameter.fill(0);
  EXPECT_EQ(model(x).to_vector<float>(), y.to_vector<float>());
}

}  // namespace
}  // namespace extensor
