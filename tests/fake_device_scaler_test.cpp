// Loss scaling on the fake device: no waits, and the numbers of the CPU, also where gradients
// overflow.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>

#include "support/device_test.h"

namespace extensor {
namespace {

using fake_device::FakeDevice;
using fake_device::same_bits;
using optim::StateDict;

constexpr Device device = fake_device::first;
constexpr double infinity = std::numeric_limits<double>::infinity();

struct Trained {
  std::vector<Tensor> weights;
  std::vector<bool> made;
  StateDict optimizer, scaler;
};

void expect_equal(const StateDict& a, const StateDict& b) {
  EXPECT_EQ(a.numbers, b.numbers);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (const auto& [name, tensor] : a.tensors) {
    ASSERT_TRUE(b.tensors.contains(name)) << name;
    EXPECT_TRUE(same_bits(tensor, b.tensors.at(name))) << name;
  }
}

void expect_equal(const Trained& got, const Trained& expected) {
  EXPECT_EQ(got.made, expected.made);
  ASSERT_EQ(got.weights.size(), expected.weights.size());
  for (std::size_t k = 0; k < got.weights.size(); ++k) {
    EXPECT_TRUE(same_bits(got.weights[k], expected.weights[k])) << k;
  }
  expect_equal(got.optimizer, expected.optimizer);
  expect_equal(got.scaler, expected.scaler);
}

template <class Optimizer>
std::unique_ptr<optim::Optimizer> make(const std::vector<Tensor>& parameters) {
  if constexpr (std::is_same_v<Optimizer, optim::SGD>) {
    return std::make_unique<optim::SGD>(parameters,
                                        SgdOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.25});
  } else {
    return std::make_unique<Optimizer>(parameters);
  }
}

// Steps with the factors on the loss: a factor of infinity overflows. The scale grows after two
// good steps.
template <class Optimizer>
Trained train(Device place, const std::vector<double>& factors, bool clips) {
  manual_seed(5);
  nn::Linear first(6, 8), second(8, 3);
  const Tensor x = randn({16, 6}), y = randint(0, 3, {16});
  first.to(place);
  second.to(place);
  // A parameter that kernels do not step in place.
  const Tensor skewed = randn({3, 2}).to(place).transpose().detach().requires_grad_();
  std::vector<Tensor> parameters = first.parameters();
  for (const Tensor& each : second.parameters()) parameters.push_back(each);
  parameters.push_back(skewed);
  const std::unique_ptr<optim::Optimizer> optimizer = make<Optimizer>(parameters);
  optim::GradScaler scaler({.init_scale = 256, .growth_interval = 2});
  const Tensor inputs = x.to(place), targets = y.to(place);
  std::vector<optim::ScaledStep> steps;
  const std::int64_t waits = fake_device::waits(), idle_reads = fake_device::idle_reads();
  for (const double factor : factors) {
    optimizer->zero_grad();
    Tensor loss;
    {
      const Autocast half(float16);
      loss = cross_entropy(second(relu(first(inputs))), targets) + sum(square(skewed)) * 0.01;
    }
    scaler.scale(loss * factor).backward();
    if (clips) {
      scaler.unscale(*optimizer);
      optim::clip_grad_norm(parameters, 0.1);
    }
    steps.push_back(scaler.step(*optimizer));
    scaler.update();
  }
  EXPECT_EQ(fake_device::waits(), waits) << "host waits in " << factors.size() << " steps";
  EXPECT_EQ(fake_device::idle_reads(), idle_reads) << "reads of a decision that was just made";
  Trained result;
  for (const optim::ScaledStep& step : steps) result.made.push_back(step);
  EXPECT_EQ(fake_device::waits(), waits) << "the decisions are read one by one";
  result.optimizer = optimizer->state_dict();
  result.scaler = scaler.state_dict();
  for (const Tensor& each : parameters) result.weights.push_back(each.detach().clone());
  return result;
}

template <class Optimizer>
void expect_same_training() {
  const std::vector<std::vector<double>> runs = {
      {1, 1, 1, 1, 1},                                         // no overflow
      {infinity, infinity, 1, 1, 1, infinity, 1, 1, infinity}  // first, twice, between and last
  };
  for (const auto& factors : runs) {
    for (const bool clips : {false, true}) {
      SCOPED_TRACE(testing::Message() << factors.size() << " steps, clips: " << clips);
      const Trained expected = train<Optimizer>(cpu_device, factors, clips);
      for (std::size_t k = 0; k < factors.size(); ++k) {
        EXPECT_EQ(expected.made[k], std::isfinite(factors[k])) << k;
      }
      expect_equal(train<Optimizer>(device, factors, clips), expected);
    }
  }
}

TEST_F(FakeDevice, AScaledAdamWStepsWithoutWaitsAsOnTheCpu) {
  expect_same_training<optim::AdamW>();
}
TEST_F(FakeDevice, AScaledMomentumStepsWithoutWaitsAsOnTheCpu) {
  expect_same_training<optim::SGD>();
}
TEST_F(FakeDevice, AScaledLionStepsWithoutWaitsAsOnTheCpu) { expect_same_training<optim::Lion>(); }

// The scale itself overflows float16, until it is low enough.
TEST_F(FakeDevice, AScaleThatIsTooLargeIsLowered) {
  const auto run = [](Device place) {
    Tensor w = ones({4}, {float16, place}).requires_grad_();
    optim::SGD optimizer({w}, {.lr = 0.25});
    optim::GradScaler scaler({.init_scale = 65536.0 * 8});
    for (int k = 0; k < 6; ++k) {
      optimizer.zero_grad();
      scaler.scale(sum(w.to(float32))).backward();
      scaler.step(optimizer);
      scaler.update();
    }
    return std::pair(w.detach().to(cpu_device), scaler.scale());
  };
  // A gradient of the scale is finite in float16 from 2^15 on, after four steps that are skipped.
  const auto [weight, scale] = run(device);
  EXPECT_EQ(scale, 32768);
  EXPECT_TRUE(same_bits(weight, full({4}, 0.5, float16)));
  EXPECT_EQ(run(cpu_device).second, scale);
}

TEST_F(FakeDevice, OneOfTwoOptimizersOverflows) {
  const auto run = [](Device place) {
    Tensor a = ones({2}, place).requires_grad_(), b = ones({3}, place).requires_grad_();
    optim::SGD first({a}, {.lr = 0.5}), second({b}, {.lr = 0.5});
    optim::GradScaler scaler({.init_scale = 64});
    const std::int64_t waits = fake_device::waits(), idle_reads = fake_device::idle_reads();
    for (const double factor : {1.0, infinity, 1.0}) {
      first.zero_grad();
      second.zero_grad();
      scaler.scale(sum(a) + sum(b * factor)).backward();
      scaler.step(first);
      scaler.step(second);
      scaler.update();
    }
    EXPECT_EQ(fake_device::waits(), waits);
    EXPECT_EQ(fake_device::idle_reads(), idle_reads);
    EXPECT_EQ(scaler.scale(), 32);
    EXPECT_EQ(scaler.state_dict().numbers.at("growth_tracker"), 1);
    EXPECT_TRUE(same_bits(a.detach(), full({2}, -0.5)));
    EXPECT_TRUE(same_bits(b.detach(), zeros({3})));
  };
  run(cpu_device);
  run(device);
}

TEST_F(FakeDevice, ParametersOnTwoDevicesAreSkippedTogether) {
  Tensor a = ones({2}, device).requires_grad_();
  Tensor b = ones({3}, fake_device::second).requires_grad_();
  optim::SGD optimizer({a, b}, {.lr = 0.5});
  optim::GradScaler scaler({.init_scale = 64});
  const auto step = [&](double factor) {
    optimizer.zero_grad();
    scaler.scale(sum(a * factor) + sum(b).to(device)).backward();
    const optim::ScaledStep result = scaler.step(optimizer);
    scaler.update();
    return result;
  };
  EXPECT_FALSE(step(infinity));
  EXPECT_TRUE(same_bits(b.detach(), ones({3})));
  EXPECT_TRUE(step(1));
  EXPECT_TRUE(same_bits(a.detach(), full({2}, 0.5)));
  EXPECT_TRUE(same_bits(b.detach(), full({3}, 0.5)));
  EXPECT_EQ(scaler.scale(), 32);
}

// One launch scales the gradients of all parameters of a dtype, also those that are not dense,
// while the scale is known to the host and while only the device knows it.
TEST_F(FakeDevice, UnscalesInOneLaunch) {
  const auto run = [](int count) {
    std::vector<Tensor> parameters;
    Tensor loss = zeros({}, device);
    for (int k = 0; k < count; ++k) {
      parameters.push_back(full({3}, k, {float32, device}).requires_grad_());
      loss = loss + sum(parameters.back()) * (k + 1);
    }
    optim::SGD optimizer(parameters, {.lr = 1});
    optim::GradScaler scaler({.init_scale = 64, .growth_interval = 1});
    std::vector<std::int64_t> launches;
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      scaler.scale(loss).backward({.retain_graph = true});
      const std::int64_t before = fake_device::launches();
      scaler.unscale(optimizer);
      launches.push_back(fake_device::launches() - before);
      for (int k = 0; k < count; ++k) {
        EXPECT_TRUE(same_bits(parameters[static_cast<std::size_t>(k)].grad(), full({3}, k + 1.0)))
            << step;
      }
      scaler.step(optimizer);
      scaler.update();
    }
    EXPECT_EQ(scaler.scale(), 512);
    return launches;
  };
  EXPECT_EQ(run(20), run(2));
}

TEST_F(FakeDevice, UnscalesGradientsOfEveryLayoutAndDtype) {
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    manual_seed(3);
    const Tensor values = randn({4, 5}, {.dtype = dtype});
    const auto run = [&](Device place) {
      Tensor skewed = values.clone().to(place).transpose().detach().requires_grad_();
      Tensor none = zeros({0, 3}, {dtype, place}).requires_grad_();
      Tensor single = values[0][0].clone().to(place).requires_grad_();
      optim::SGD optimizer({none, skewed, single}, {.lr = 0.25});
      optim::GradScaler scaler({.init_scale = 48, .growth_factor = 3, .growth_interval = 1});
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        const Tensor loss = sum(square(skewed.to(float32))) + sum(none.to(float32)) +
                            square(single.to(float32)) * 3;
        scaler.scale(loss).backward();
        scaler.unscale(optimizer);
        if (step != 2) {
          scaler.step(optimizer);
          scaler.update();
        }
      }
      return std::vector<Tensor>{none.grad(), skewed.grad(), single.grad()};
    };
    const std::vector<Tensor> expected = run(cpu_device), got = run(device);
    for (std::size_t k = 0; k < expected.size(); ++k) {
      EXPECT_TRUE(same_bits(got[k], expected[k])) << name(dtype) << " " << k;
    }
    EXPECT_FALSE(same_bits(expected[1], values.transpose() * 2)) << "no step was made";
  }
}

// A state that was saved on one device is loaded on another, also while a decision is unread.
TEST_F(FakeDevice, StatesOfScalersAndOptimizersMove) {
  Tensor w = ones({2}, device).requires_grad_(), near = ones({2}).requires_grad_();
  optim::Adam optimizer({w}), other({near});
  optim::GradScaler scaler({.init_scale = 64}), loaded;
  const auto step = [&](double factor) {
    optimizer.zero_grad();
    scaler.scale(sum(w * factor)).backward();
    scaler.step(optimizer);
    scaler.update();
  };
  step(1);
  step(infinity);
  EXPECT_EQ(optimizer.state_dict().numbers.at("state.0.step"), 1);
  loaded.load_state_dict(scaler.state_dict());
  EXPECT_EQ(loaded.scale(), 32);
  other.load_state_dict(optimizer.state_dict());
  EXPECT_EQ(other.state_dict().numbers.at("state.0.step"), 1);
  step(infinity);
  StateDict saved;
  saved.numbers = {{"scale", 1024}, {"growth_tracker", 7}};
  scaler.load_state_dict(saved);
  EXPECT_EQ(scaler.scale(), 1024) << "the unread decision belongs to the replaced state";
  EXPECT_EQ(scaler.state_dict().numbers, saved.numbers);
  optimizer.load_state_dict(other.state_dict());
  EXPECT_EQ(optimizer.state_dict().numbers.at("state.0.step"), 1);
}

// Without a scaler, or with one that is disabled, a step has no condition.
TEST_F(FakeDevice, ADisabledScalerSteps) {
  Tensor w = ones({2}, device).requires_grad_();
  optim::SGD optimizer({w}, {.lr = 0.5});
  optim::GradScaler scaler({.enabled = false});
  scaler.scale(sum(w * infinity)).backward();
  EXPECT_TRUE(scaler.step(optimizer));
  scaler.update();
  EXPECT_TRUE(same_bits(w.detach(), full({2}, -infinity)));
}

}  // namespace
}  // namespace extensor
