// Training with products in float16: the loss is scaled, steps that overflow are skipped.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "extensor/extensor.h"
#include "support/files.h"

namespace extensor {
namespace {

using test_support::TemporaryDirectory;

struct Steps final : train::Callback {
  explicit Steps(std::vector<train::StepRecord>& seen) : seen_(seen) {}
  void step(const train::StepRecord& record) override { seen_.push_back(record); }

 private:
  std::vector<train::StepRecord>& seen_;
};

data::TensorDataset examples() {
  manual_seed(1);
  const Tensor x = randn({64, 8}, cpu_device);
  return {x, argmax(x.slice(1, 0, 3), 1)};
}

// The weights after a run of `steps` steps.
std::vector<Tensor> trained(train::TrainerOptions options, std::vector<train::StepRecord>& seen,
                            double loss_factor, bool resume = false, bool nan_gradients = false) {
  const data::TensorDataset data = examples();
  manual_seed(2);
  models::Mlp model({8, 16, 3});
  model.to(default_device());
  optim::SGD optimizer(model.parameters(), {.lr = 0.5 / loss_factor, .momentum = 0.9});
  options.autocast = float16;
  options.loss = [=](const Tensor& outputs, const Tensor& targets) {
    const Tensor wide = outputs.to(float32);
    const Tensor loss = cross_entropy(wide, targets) * loss_factor;
    if (!nan_gradients) return loss;
    // The gradient of the branch that is not chosen is 0 · ∞.
    return loss + sum(where(wide == wide, zeros_like(wide), wide * INFINITY));
  };
  const data::DataLoader loader(data, {.batch_size = 16, .seed = 3});
  train::Trainer trainer(model, optimizer, options);
  if (resume) {
    EXPECT_TRUE(trainer.resume().has_value());
  }
  trainer.add<Steps>(seen);
  trainer.fit(loader);
  std::vector<Tensor> weights;
  for (const Tensor& each : model.parameters()) {
    weights.push_back(each.detach().to(cpu_device).clone());
  }
  return weights;
}

TEST(TrainFloat16, LearnsAfterStepsThatOverflow) {
  std::vector<train::StepRecord> seen;
  trained({.steps = 60}, seen, 1e6);
  ASSERT_EQ(seen.size(), 60u);
  std::size_t skipped = 0;
  while (skipped < seen.size() && !std::isfinite(seen[skipped].gradient_norm)) ++skipped;
  EXPECT_GE(skipped, 1u) << "the first scale is too large for these gradients";
  EXPECT_LE(skipped, 30u);
  EXPECT_LT(seen.back().loss, 0.3 * seen.front().loss);
}

TEST(TrainFloat16, ASkippedStepChangesNothing) {
  std::vector<train::StepRecord> seen;
  const std::vector<Tensor> got = trained({.steps = 1}, seen, 1e6);
  ASSERT_FALSE(std::isfinite(seen.at(0).gradient_norm));
  (void)examples();
  manual_seed(2);
  const models::Mlp fresh({8, 16, 3});
  for (std::size_t k = 0; k < got.size(); ++k) {
    EXPECT_EQ(got[k].to_vector<float>(),
              fresh.parameters()[k].detach().to(cpu_device).to_vector<float>());
  }
}

TEST(TrainFloat16, ResumesWithItsScale) {
  std::vector<train::StepRecord> seen;
  const std::vector<Tensor> expected = trained({.steps = 24}, seen, 1e4);
  const TemporaryDirectory directory;
  trained({.steps = 9, .checkpoints = directory.path(), .checkpoint_every = 3}, seen, 1e4);
  const std::vector<Tensor> got = trained(
      {.steps = 24, .checkpoints = directory.path(), .checkpoint_every = 3}, seen, 1e4, true);
  for (std::size_t k = 0; k < got.size(); ++k) {
    EXPECT_EQ(got[k].to_vector<float>(), expected[k].to_vector<float>()) << k;
  }
}

TEST(TrainFloat16, GradientsThatNeverAreFiniteEndTheRun) {
  std::vector<train::StepRecord> seen;
  EXPECT_THROW(trained({.steps = 200}, seen, 1, false, true), train::DivergedError);
  EXPECT_LE(seen.size(), 41u);
}

}  // namespace
}  // namespace extensor
