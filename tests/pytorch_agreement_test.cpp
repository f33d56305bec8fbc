// Compares every optimizer and every schedule with PyTorch's, step by step.
// tests/pytorch/reference.py writes PyTorch's results to the directory that
// EXTENSOR_PYTORCH_REFERENCE names; without it the tests are skipped (`./ex check pytorch` does all
// of it).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "extensor/extensor.h"
#include "optim/option_fields.h"

namespace extensor {
namespace {

using nlohmann::json;
using optim::Optimizer;
using Values = std::vector<double>;

// ---- the problem of reference.py

Tensor values(const Shape& shape, std::int64_t offset) {
  Tensor result = zeros(shape, DType::float64);
  for (std::int64_t i = 0; i < result.numel(); ++i) {
    result.data<double>()[i] = static_cast<double>((37 * i + offset) % 101) / 101 - 0.5;
  }
  return result;
}

std::vector<Tensor> parameters() {
  std::vector<Tensor> made = {values({4, 5}, 3), values({5}, 11), values({5, 2}, 29),
                              values({2}, 47), values({2}, 71)};
  for (Tensor& parameter : made) parameter.requires_grad_();
  return made;
}

Tensor loss_of(const std::vector<Tensor>& p, std::int64_t step) {
  const Tensor x = values({6, 4}, 7 + step % 5), y = values({6, 2}, 13 + step % 5);
  Tensor output = matmul(tanh(matmul(x, p[0]) + p[1]), p[2]) + p[3];
  if (step % 3 == 2) output = output * (p[4] + 1.0);
  return mean(square(output - y));
}

// ---- PyTorch's results

class PyTorchAgreement : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* directory = std::getenv("EXTENSOR_PYTORCH_REFERENCE");
    if (directory == nullptr) {
      GTEST_SKIP() << "EXTENSOR_PYTORCH_REFERENCE is not set; ./ex check pytorch compares";
    }
    std::ifstream file(std::string(directory) + "/optim.json");
    ASSERT_TRUE(file) << directory << " has no optim.json";
    reference = json::parse(file);
  }
  json reference;
};

Values flat(const std::vector<Tensor>& tensors) {
  Values all;
  for (const Tensor& x : tensors) {
    const Values part = x.detach().to_vector<double>();
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

// To 1e-10 of the number itself, or of the largest number in its tensor if that is a thousand times
// larger.
void expect_close(const Values& got, const Values& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  double largest = 0;
  for (double value : expected) largest = std::max(largest, std::fabs(value));
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double scale = std::max(std::fabs(expected[i]), 1e-3 * largest);
    ASSERT_NEAR(got[i], expected[i], 1e-10 * scale) << what << ", element " << i;
  }
}

template <class Options>
std::unique_ptr<Optimizer> make(const json& groups, const json& options,
                                const std::vector<Tensor>& all) {
  std::vector<optim::ParameterGroup<Options>> made;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    optim::ParameterGroup<Options> group;
    for (std::size_t k : groups[g]) group.parameters.push_back(all[k]);
    std::size_t known = 0;
    optim::visit_fields(group.options, [&](const std::string& name, auto& field) {
      if (!options[g].contains(name)) return;
      field = static_cast<std::remove_reference_t<decltype(field)>>(options[g][name].get<double>());
      ++known;
    });
    EXPECT_EQ(known, options[g].size()) << "an option got lost: " << options[g];
    made.push_back(group);
  }
  return std::make_unique<optim::OptimizerOf<Options>>(made);
}

std::unique_ptr<Optimizer> make_optimizer(const std::string& name, const json& groups,
                                          const json& options, const std::vector<Tensor>& all) {
#define OPTIMIZER(row, Class, Options, ...) \
  if (name == #Class) return make<Options>(groups, options, all);
#include "extensor/tables/optimizers.def"
  throw std::invalid_argument(name);
}

TEST_F(PyTorchAgreement, Optimizers) {
  ASSERT_GE(reference["optimizers"].size(), 20u);
  for (const json& test : reference["optimizers"]) {
    const std::string label = test["optimizer"].get<std::string>() + " " + test["options"].dump();
    SCOPED_TRACE(label);
    const std::vector<Tensor> all = parameters();
    const auto optimizer = make_optimizer(test["optimizer"], test["groups"], test["options"], all);
    ASSERT_GE(test["parameters"].size(), 20u);
    std::int64_t step = 0;
    for (const json& expected : test["parameters"]) {
      optimizer->zero_grad();
      (loss_of(all, step) * test["sign"].get<double>()).backward();
      optimizer->step();
      ASSERT_NO_FATAL_FAILURE(
          expect_close(flat(all), expected.get<Values>(), "step " + std::to_string(step)));
      ++step;
    }
    const optim::StateDict state = optimizer->state_dict();
    std::size_t steps = 0;
    for (const auto& [name, expected] : test["state"].items()) {
      if (!expected.is_array()) {
        ASSERT_TRUE(state.numbers.contains(name)) << name;
        EXPECT_EQ(state.numbers.at(name), expected.get<double>()) << name;
        ++steps;
        continue;
      }
      ASSERT_TRUE(state.tensors.contains(name)) << name;
      ASSERT_NO_FATAL_FAILURE(
          expect_close(flat({state.tensors.at(name)}), expected.get<Values>(), name));
    }
    EXPECT_EQ(state.tensors.size() + steps, test["state"].size());
  }
}

// ---- schedules

optim::PerGroup per_group(const json& given) {
  return given.is_array() ? optim::PerGroup(given.get<Values>())
                          : optim::PerGroup(given.get<double>());
}

std::unique_ptr<optim::LRScheduler> make_schedule(const json& part, Optimizer& optimizer) {
  const std::string name = part["scheduler"];
  const json& o = part["options"];
  if (name == "StepLR") {
    optim::StepLROptions made;
    made.step_size = o["step_size"];
    made.gamma = o.value("gamma", made.gamma);
    return std::make_unique<optim::StepLR>(optimizer, made);
  }
  if (name == "MultiStepLR") {
    optim::MultiStepLROptions made;
    made.milestones = o["milestones"].get<std::vector<std::int64_t>>();
    made.gamma = o.value("gamma", made.gamma);
    return std::make_unique<optim::MultiStepLR>(optimizer, made);
  }
  if (name == "ExponentialLR") {
    return std::make_unique<optim::ExponentialLR>(optimizer,
                                                  optim::ExponentialLROptions{.gamma = o["gamma"]});
  }
  if (name == "CosineAnnealingLR") {
    optim::CosineAnnealingLROptions made{.t_max = o["T_max"]};
    made.eta_min = o.value("eta_min", made.eta_min);
    return std::make_unique<optim::CosineAnnealingLR>(optimizer, made);
  }
  if (name == "CosineAnnealingWarmRestarts") {
    optim::CosineAnnealingWarmRestartsOptions made{.t_0 = o["T_0"]};
    made.t_mult = o.value("T_mult", made.t_mult);
    made.eta_min = o.value("eta_min", made.eta_min);
    return std::make_unique<optim::CosineAnnealingWarmRestarts>(optimizer, made);
  }
  if (name == "LinearLR") {
    optim::LinearLROptions made;
    made.start_factor = o.value("start_factor", made.start_factor);
    made.end_factor = o.value("end_factor", made.end_factor);
    made.total_iters = o.value("total_iters", made.total_iters);
    return std::make_unique<optim::LinearLR>(optimizer, made);
  }
  if (name == "PolynomialLR") {
    optim::PolynomialLROptions made;
    made.total_iters = o.value("total_iters", made.total_iters);
    made.power = o.value("power", made.power);
    return std::make_unique<optim::PolynomialLR>(optimizer, made);
  }
  if (name == "OneCycleLR") {
    optim::OneCycleLROptions made{.max_lr = per_group(o["max_lr"])};
    made.total_steps = o.value("total_steps", made.total_steps);
    made.epochs = o.value("epochs", made.epochs);
    made.steps_per_epoch = o.value("steps_per_epoch", made.steps_per_epoch);
    made.pct_start = o.value("pct_start", made.pct_start);
    if (o.value("anneal_strategy", "cos") == "linear") {
      made.anneal_strategy = optim::AnnealStrategy::linear;
    }
    made.cycle_momentum = o.value("cycle_momentum", made.cycle_momentum);
    made.base_momentum = o.value("base_momentum", made.base_momentum);
    made.max_momentum = o.value("max_momentum", made.max_momentum);
    made.div_factor = o.value("div_factor", made.div_factor);
    made.final_div_factor = o.value("final_div_factor", made.final_div_factor);
    made.three_phase = o.value("three_phase", made.three_phase);
    return std::make_unique<optim::OneCycleLR>(optimizer, made);
  }
  throw std::invalid_argument(name);
}

std::unique_ptr<optim::ReduceLROnPlateau> make_plateau(const json& o, Optimizer& optimizer) {
  optim::ReduceLROnPlateauOptions made;
  if (o.value("mode", "min") == "max") made.mode = optim::PlateauMode::max;
  if (o.value("threshold_mode", "rel") == "abs") made.threshold_mode = optim::ThresholdMode::abs;
  made.factor = o.value("factor", made.factor);
  made.patience = o.value("patience", made.patience);
  made.threshold = o.value("threshold", made.threshold);
  made.cooldown = o.value("cooldown", made.cooldown);
  made.eps = o.value("eps", made.eps);
  if (o.contains("min_lr")) made.min_lr = per_group(o["min_lr"]);
  return std::make_unique<optim::ReduceLROnPlateau>(optimizer, made);
}

TEST_F(PyTorchAgreement, Schedulers) {
  ASSERT_GE(reference["schedulers"].size(), 40u);
  for (const json& test : reference["schedulers"]) {
    const std::string kind = test["kind"];
    SCOPED_TRACE(kind + " " + test["parts"].dump());
    const std::vector<Tensor> all = parameters();
    const auto optimizer =
        make_optimizer(test["optimizer"], json::parse("[[0, 1], [2, 3, 4]]"), test["options"], all);
    std::vector<std::unique_ptr<optim::LRScheduler>> schedules;
    std::unique_ptr<optim::ReduceLROnPlateau> plateau;
    std::unique_ptr<optim::SequentialLR> sequence;
    if (kind == "plateau") {
      plateau = make_plateau(test["parts"][0]["options"], *optimizer);
    } else {
      for (const json& part : test["parts"]) schedules.push_back(make_schedule(part, *optimizer));
    }
    if (kind == "sequence") {
      std::vector<std::reference_wrapper<optim::LRScheduler>> parts;
      for (const auto& schedule : schedules) parts.emplace_back(*schedule);
      sequence = std::make_unique<optim::SequentialLR>(
          *optimizer, parts, test["milestones"].get<std::vector<std::int64_t>>());
    }
    const auto advance = [&](std::size_t step) {
      if (plateau != nullptr) return plateau->step(test["metrics"][step].get<double>());
      if (sequence != nullptr) return sequence->step();
      if (kind == "fractional") {
        return dynamic_cast<optim::CosineAnnealingWarmRestarts&>(*schedules[0])
            .step(test["epochs"][step].get<double>());
      }
      for (const auto& schedule : schedules) schedule->step();
    };
    const auto compare = [&](std::size_t step) {
      const json& expected = test["steps"][step];
      const std::string when = "after step " + std::to_string(step);
      Values rates, momenta;
      for (std::size_t g = 0; g < optimizer->group_count(); ++g) {
        rates.push_back(optimizer->lr(g));
        momenta.push_back(optimizer->momentum(g));
      }
      expect_close(rates, expected["lr"].get<Values>(), "lr " + when);
      expect_close(momenta, expected["momentum"].get<Values>(), "momentum " + when);
      expect_close(flat(all), expected["parameters"].get<Values>(), "parameters " + when);
    };
    ASSERT_NO_FATAL_FAILURE(compare(0));
    ASSERT_GE(test["steps"].size(), 21u);
    for (std::size_t step = 0; step + 1 < test["steps"].size(); ++step) {
      optimizer->zero_grad();
      loss_of(all, static_cast<std::int64_t>(step)).backward();
      optimizer->step();
      advance(step);
      ASSERT_NO_FATAL_FAILURE(compare(step + 1));
    }
  }
}

// ---- clipping and averages

std::vector<Tensor> gradients(const std::vector<Tensor>& all) {
  std::vector<Tensor> grads;
  for (const Tensor& parameter : all) {
    if (parameter.grad().defined()) grads.push_back(parameter.grad());
  }
  return grads;
}

TEST_F(PyTorchAgreement, Clipping) {
  const json& clipping = reference["clipping"];
  for (const json& test : clipping["norms"]) {
    SCOPED_TRACE(test["norm_type"].get<std::string>() + " " + test["max_norm"].dump());
    const std::vector<Tensor> all = parameters();
    loss_of(all, 0).backward();
    const double norm_type = std::stod(test["norm_type"].get<std::string>());
    const double norm = optim::clip_grad_norm(all, test["max_norm"].get<double>(), norm_type);
    EXPECT_NEAR(norm, test["norm"].get<double>(), 1e-12 * norm);
    expect_close(flat(gradients(all)), test["grads"].get<Values>(), "gradients");
  }
  const std::vector<Tensor> all = parameters();
  loss_of(all, 2).backward();
  optim::clip_grad_value(all, clipping["clip_value"].get<double>());
  expect_close(flat(gradients(all)), clipping["values"].get<Values>(), "gradients");
}

TEST_F(PyTorchAgreement, MovingAverage) {
  const json& test = reference["average"];
  const std::vector<Tensor> all = parameters();
  optim::ExponentialMovingAverage average(all, test["decay"]);
  optim::SGD optimizer(all, {.lr = 0.1});
  std::int64_t step = 0;
  for (const json& expected : test["averages"]) {
    optimizer.zero_grad();
    loss_of(all, step++).backward();
    optimizer.step();
    average.update();
    ASSERT_NO_FATAL_FAILURE(
        expect_close(flat(average.averages()), expected.get<Values>(), std::to_string(step)));
  }
}

}  // namespace
}  // namespace extensor
