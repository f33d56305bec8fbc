// Training on a CUDA device: loss scaling that the device decides on, and batches that are copied
// ahead.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "cuda/cuda_test.h"

namespace extensor {
namespace {

using cuda_test::device;
using cuda_test::same_bits;

constexpr double infinity = std::numeric_limits<double>::infinity();

class CudaTraining : public cuda_test::CudaTest {};

// All numbers are exact.
TEST_F(CudaTraining, AStepWithOverflowIsSkipped) {
  for (const DType dtype : {float32, float64, float16, bfloat16}) {
    SCOPED_TRACE(name(dtype));
    Tensor a = ones({1000}, {dtype, device}).requires_grad_();
    Tensor b = ones({33, 7}, {dtype, device}).transpose().detach().requires_grad_();
    optim::SGD optimizer({a, b}, {.lr = 0.25, .momentum = 0.5});
    optim::GradScaler scaler({.init_scale = 64, .growth_interval = 2});
    std::vector<optim::ScaledStep> steps;
    for (const double factor : {infinity, 1.0, infinity, 1.0, 1.0}) {
      optimizer.zero_grad();
      scaler.scale(sum(a.to(float32)) + sum(b.to(float32) * factor)).backward();
      steps.push_back(scaler.step(optimizer));
      scaler.update();
    }
    const std::vector<bool> made(steps.begin(), steps.end());
    EXPECT_EQ(made, (std::vector<bool>{false, true, false, true, true}));
    EXPECT_EQ(scaler.scale(), 32) << "halved twice, doubled once";
    // 1 − 0.25 · (1 + 1.5 + 1.75)
    EXPECT_TRUE(same_bits(a.detach(), full({1000}, -0.0625, dtype)));
    EXPECT_TRUE(same_bits(b.detach(), full({7, 33}, -0.0625, dtype)));
  }
}

TEST_F(CudaTraining, AScaleThatIsTooLargeIsLowered) {
  Tensor w = ones({4}, {float16, device}).requires_grad_();
  optim::SGD optimizer({w}, {.lr = 0.25});
  optim::GradScaler scaler({.init_scale = 65536.0 * 8});
  for (int k = 0; k < 6; ++k) {
    optimizer.zero_grad();
    scaler.scale(sum(w.to(float32))).backward();
    scaler.step(optimizer);
    scaler.update();
  }
  EXPECT_EQ(scaler.scale(), 32768);
  EXPECT_TRUE(same_bits(w.detach(), full({4}, 0.5, float16)));
}

// Adam's corrections depend on the number of steps that were made.
TEST_F(CudaTraining, SkippedStepsDoNotCount) {
  const auto train = [](Device place) {
    manual_seed(2);
    models::Mlp model({20, 32, 4});
    const Tensor x = randn({64, 20}).to(place), y = randint(0, 4, {64}).to(place);
    model.to(place);
    optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
    optim::GradScaler scaler({.init_scale = 1024, .growth_interval = 3});
    for (int k = 0; k < 12; ++k) {
      optimizer.zero_grad();
      scaler.scale(cross_entropy(model(x), y) * (k % 4 == 0 ? infinity : 1.0)).backward();
      scaler.unscale(optimizer);
      optim::clip_grad_norm(model.parameters(), 1.0);
      scaler.step(optimizer);
      scaler.update();
    }
    EXPECT_EQ(optimizer.state_dict().numbers.at("state.0.step"), 9);
    EXPECT_EQ(scaler.scale(), 1024);
    std::vector<Tensor> weights;
    for (const Tensor& each : model.parameters()) {
      weights.push_back(each.detach().to(cpu_device).clone());
    }
    return weights;
  };
  const std::vector<Tensor> expected = train(cpu_device), got = train(device);
  for (std::size_t k = 0; k < got.size(); ++k) {
    EXPECT_TRUE(allclose(got[k], expected[k], 1e-4, 1e-5)) << k;
  }
}

struct Losses final : train::Callback {
  explicit Losses(std::vector<double>& seen) : seen_(seen) {}
  void step(const train::StepRecord& record) override { seen_.push_back(record.loss); }

 private:
  std::vector<double>& seen_;
};

// The loss is a function of the batch: batches arrive complete and in order, small and large ones,
// while the model computes.
TEST_F(CudaTraining, BatchesThatAreCopiedAheadArriveInOrder) {
  constexpr std::int64_t width = 40000;
  manual_seed(4);
  const data::TensorDataset numbers(randn({300, width}), zeros({300}, int64));
  const auto train = [&](Device place, std::int64_t batch_size, int workers) {
    manual_seed(6);
    nn::Linear model(width, 1);
    model.to(place);
    optim::SGD optimizer(model.parameters(), {.lr = 0});
    const data::DataLoader loader(numbers,
                                  {.batch_size = batch_size, .workers = workers, .seed = 8});
    train::Trainer trainer(
        model, optimizer,
        {.epochs = 2, .loss = [](const Tensor& outputs, const Tensor&) { return mean(outputs); }});
    std::vector<double> losses;
    trainer.add<Losses>(losses);
    trainer.fit(loader);
    return losses;
  };
  for (const std::int64_t batch_size : {1, 7, 150}) {
    const std::vector<double> expected = train(cpu_device, batch_size, 0);
    for (const int workers : {0, 2}) {
      const std::vector<double> got = train(device, batch_size, workers);
      ASSERT_EQ(got.size(), expected.size());
      for (std::size_t k = 0; k < got.size(); ++k) {
        ASSERT_NEAR(got[k], expected[k], 1e-4) << "batch size " << batch_size << ", step " << k;
      }
    }
  }
}

}  // namespace
}  // namespace extensor
