// Models are exchanged with PyTorch: PyTorch's weights give PyTorch's outputs here, and ten
// training steps give PyTorch's weights. `./ex check pytorch` runs this between the two parts of
// tests/pytorch/exchange.py, which writes those files and reads the ones written here.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "extensor/extensor.h"

namespace extensor {
namespace {

Tensor numbers(const Shape& shape, std::int64_t offset) {
  std::int64_t count = 1;
  for (std::int64_t size : shape) count *= size;
  return (((arange(count) * 37 + offset) % 101).to(float32) / 101).reshape(shape);
}

Tensor tokens() { return ((arange(2 * 64) * 31) % 65).reshape({2, 64}); }

double largest_difference(const Tensor& a, const Tensor& b) {
  if (a.numel() == 0) return 0;
  return max_reduce(abs(a.to(float64) - b.to(float64))).item<double>();
}

class PytorchExchange : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* directory = std::getenv("EXTENSOR_PYTORCH_REFERENCE");
    if (directory == nullptr) GTEST_SKIP() << "no PyTorch to compare with: ./ex check pytorch";
    directory_ = directory;
  }

  template <class Model, class Optimizer>
  void exchange(const std::string& name, const Tensor& x, const Tensor& target,
                const Optimizer& optimizer_of) {
    const auto at = [&](const char* file) { return directory_ / name / file; };
    // PyTorch's weights in our model.
    Model model;
    model.load_state_dict(load_safetensors(at("weights.safetensors")).tensors);
    model.eval();
    const Tensor theirs = load_safetensors(at("output.safetensors")).tensors[0].second;
    const Tensor ours = unrecorded_output(model, x);
    const double scale = std::max(1.0, max_reduce(abs(theirs)).item<double>());
    EXPECT_LE(largest_difference(ours, theirs), 1e-5 * scale) << name << ": outputs";

    // Ten steps, in float64: they amplify rounding.
    model.to(float64).train();
    const Tensor wide = is_floating_point(x.dtype()) ? x.to(float64) : x;
    auto optimizer = optimizer_of(model.parameters());
    for (int step = 0; step < 10; ++step) {
      optimizer->zero_grad();
      const Tensor logits = model(wide);
      cross_entropy(logits.reshape({-1, logits.size(-1)}), target).backward();
      optimizer->step();
    }
    const NamedTensors trained = load_safetensors(at("trained.safetensors")).tensors;
    const NamedTensors state = model.state_dict();
    ASSERT_EQ(state.size(), trained.size());
    double worst = 0;
    for (std::size_t k = 0; k < state.size(); ++k) {
      ASSERT_EQ(state[k].first, trained[k].first);
      const double error = largest_difference(state[k].second, trained[k].second);
      const double size =
          std::max(1.0, max_reduce(abs(trained[k].second.to(float64))).item<double>());
      EXPECT_LE(error, 1e-5 * size) << name << ": " << state[k].first << " after ten steps";
      worst = std::max(worst, error / size);
    }
    std::printf("%s: outputs differ by %.2e, weights after ten steps by %.2e\n", name.c_str(),
                largest_difference(ours, theirs), worst);

    // Our weights for PyTorch.
    manual_seed(9);
    Model fresh;
    fresh.eval();
    save_safetensors(at("extensor_weights.safetensors"), fresh.state_dict());
    save_safetensors(at("extensor_output.safetensors"), {{"output", unrecorded_output(fresh, x)}});
  }

 private:
  template <class Model>
  static Tensor unrecorded_output(Model& model, const Tensor& x) {
    const NoGrad off;
    return model(x);
  }

  std::filesystem::path directory_;
};

std::unique_ptr<optim::SGD> sgd(const std::vector<Tensor>& parameters) {
  return std::make_unique<optim::SGD>(parameters, SgdOptions{.lr = 0.01, .momentum = 0.9});
}
std::unique_ptr<optim::AdamW> adamw(const std::vector<Tensor>& parameters) {
  return std::make_unique<optim::AdamW>(parameters, AdamWOptions{.lr = 1e-3});
}

TEST_F(PytorchExchange, LeNet) {
  exchange<models::LeNet>("lenet", numbers({8, 1, 28, 28}, 5), arange(8) % 10, sgd);
}

TEST_F(PytorchExchange, ResNet18) {
  exchange<models::ResNet18>("resnet18", numbers({4, 3, 32, 32}, 5), arange(4) % 10, sgd);
}

TEST_F(PytorchExchange, Gpt) {
  exchange<models::Gpt>("gpt", tokens(), (flatten(tokens()) * 7 + 3) % 65, adamw);
}

}  // namespace
}  // namespace extensor
