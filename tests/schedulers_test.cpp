// Schedules against closed forms of the epoch, written from their definitions.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>

#include "extensor/extensor.h"

namespace extensor {
namespace {

using Curve = std::function<double(int epoch)>;
constexpr double pi = std::numbers::pi;
constexpr double base = 0.4, other = 0.01;

struct TwoGroups {
  Tensor first = ones({2}).requires_grad_(), second = ones({3}).requires_grad_();
  optim::SGD optimizer{{{{first}, {.lr = base}}, {{second}, {.lr = other, .momentum = 0.5}}}};
};

// The rate of each group is its initial rate times factor(epoch).
void expect_factor(TwoGroups& setup, optim::LRScheduler& schedule, int epochs,
                   const Curve& factor) {
  for (int epoch = 0; epoch <= epochs; ++epoch) {
    EXPECT_EQ(schedule.last_epoch(), epoch);
    ASSERT_NEAR(setup.optimizer.lr(0), base * factor(epoch), 1e-12) << epoch;
    ASSERT_NEAR(setup.optimizer.lr(1), other * factor(epoch), 1e-12) << epoch;
    EXPECT_EQ(schedule.last_lr(), (std::vector{setup.optimizer.lr(0), setup.optimizer.lr(1)}));
    if (epoch < epochs) schedule.step();
  }
}

TEST(Schedulers, TimesGamma) {
  {
    TwoGroups setup;
    optim::StepLR schedule(setup.optimizer, {.step_size = 7});
    expect_factor(setup, schedule, 40, [](int e) { return std::pow(0.1, e / 7); });
  }
  {
    TwoGroups setup;
    optim::MultiStepLR schedule(setup.optimizer, {.milestones = {3, 3, 10}, .gamma = 0.5});
    expect_factor(setup, schedule, 20, [](int e) { return e < 3 ? 1 : e < 10 ? 0.25 : 0.125; });
  }
  {
    TwoGroups setup;
    optim::ExponentialLR schedule(setup.optimizer, {.gamma = 0.93});
    expect_factor(setup, schedule, 50, [](int e) { return std::pow(0.93, e); });
  }
}

TEST(Schedulers, Curves) {
  {
    TwoGroups setup;
    optim::LinearLR schedule(setup.optimizer);
    expect_factor(setup, schedule, 12, [](int e) { return e >= 5 ? 1 : 1 / 3.0 + e * 2 / 15.0; });
  }
  {
    TwoGroups setup;
    optim::LinearLR schedule(setup.optimizer,
                             {.start_factor = 0.9, .end_factor = 0.1, .total_iters = 8});
    expect_factor(setup, schedule, 12, [](int e) { return 0.9 - 0.1 * std::min(e, 8); });
  }
  {
    TwoGroups setup;
    optim::PolynomialLR schedule(setup.optimizer, {.total_iters = 20, .power = 1.5});
    expect_factor(setup, schedule, 25,
                  [](int e) { return std::pow(1 - std::min(e, 20) / 20.0, 1.5); });
  }
}

double cosine(double top, double bottom, double part) {
  return bottom + (top - bottom) / 2 * (1 + std::cos(pi * part));
}

TEST(Schedulers, Cosine) {
  TwoGroups setup;
  optim::CosineAnnealingLR schedule(setup.optimizer, {.t_max = 9, .eta_min = 0.002});
  for (int epoch = 0; epoch < 60; ++epoch) {
    ASSERT_NEAR(setup.optimizer.lr(0), cosine(base, 0.002, epoch / 9.0), 1e-12) << epoch;
    ASSERT_NEAR(setup.optimizer.lr(1), cosine(other, 0.002, epoch / 9.0), 1e-12) << epoch;
    schedule.step();
  }
}

TEST(Schedulers, CosineWithWarmRestarts) {
  for (std::int64_t factor : {1, 2, 3}) {
    TwoGroups setup;
    optim::CosineAnnealingWarmRestarts schedule(setup.optimizer,
                                                {.t_0 = 4, .t_mult = factor, .eta_min = 0.001});
    // The whole curve, period by period.
    const auto curve = [&](double epoch) {
      double period = 4;
      while (epoch >= period) {
        epoch -= period;
        period *= static_cast<double>(factor);
      }
      return cosine(base, 0.001, epoch / period);
    };
    for (int epoch = 0; epoch < 70; ++epoch) {
      ASSERT_NEAR(setup.optimizer.lr(0), curve(epoch), 1e-12) << factor << " " << epoch;
      schedule.step();
    }
    for (double epoch : {0.0, 0.5, 3.999, 4.0, 12.25, 52.0, 69.75}) {
      schedule.step(epoch);
      ASSERT_NEAR(setup.optimizer.lr(0), curve(epoch), 1e-12) << factor << " " << epoch;
      EXPECT_EQ(schedule.last_epoch(), static_cast<std::int64_t>(epoch));
    }
    schedule.step();
    EXPECT_NEAR(setup.optimizer.lr(0), curve(70.75), 1e-12);
  }
}

TEST(Schedulers, OneCycle) {
  TwoGroups setup;
  optim::OneCycleLR schedule(setup.optimizer, {.max_lr = {1, 0.1}, .total_steps = 20});
  for (int step = 0; step < 20; ++step) {
    const double up = 5, part = step <= up ? step / up : (step - up) / (19 - up);
    const double rate = step <= up ? cosine(1.0 / 25, 1, part) : cosine(1, 1e-4 / 25, part);
    const double momentum = step <= up ? cosine(0.95, 0.85, part) : cosine(0.85, 0.95, part);
    ASSERT_NEAR(setup.optimizer.lr(0), rate, 1e-12) << step;
    ASSERT_NEAR(setup.optimizer.lr(1), rate / 10, 1e-12) << step;
    ASSERT_NEAR(setup.optimizer.momentum(1), momentum, 1e-12) << step;
    schedule.step();
  }
  EXPECT_THROW(schedule.step(), ValueError);
  EXPECT_EQ(schedule.last_epoch(), 20);

  TwoGroups linear;
  optim::OneCycleLR three(linear.optimizer, {.max_lr = 1.0,
                                             .epochs = 4,
                                             .steps_per_epoch = 10,
                                             .pct_start = 0.25,
                                             .anneal_strategy = optim::AnnealStrategy::linear,
                                             .cycle_momentum = false,
                                             .div_factor = 10,
                                             .final_div_factor = 100,
                                             .three_phase = true});
  for (int step = 0; step < 40; ++step) {
    const double rate = step <= 9    ? 0.1 + step / 9.0 * 0.9
                        : step <= 18 ? 1 - (step - 9) / 9.0 * 0.9
                                     : 0.1 - (step - 18) / 21.0 * 0.099;
    ASSERT_NEAR(linear.optimizer.lr(0), rate, 1e-12) << step;
    EXPECT_EQ(linear.optimizer.momentum(1), 0.5);
    three.step();
  }
  EXPECT_NEAR(linear.optimizer.lr(0), 0.001, 1e-12);  // and stays there
  // The Adams' momentum is their first beta.
  optim::AdamW adam({linear.first});
  optim::OneCycleLR cycle(adam, {.max_lr = 1.0, .total_steps = 10});
  EXPECT_EQ(adam.options().betas.first, 0.95);
}

TEST(Schedulers, InSequence) {
  TwoGroups setup;
  optim::LinearLR warm_up(setup.optimizer, {.start_factor = 0.2, .total_iters = 4});
  optim::CosineAnnealingLR annealing(setup.optimizer, {.t_max = 10});
  optim::ExponentialLR decay(setup.optimizer, {.gamma = 0.5});
  optim::SequentialLR schedule(setup.optimizer, {warm_up, annealing, decay}, {4, 14});
  expect_factor(setup, schedule, 20, [](int e) {
    if (e < 4) return 0.2 + 0.2 * e;
    return e < 14 ? cosine(1, 0, (e - 4) / 10.0) : std::pow(0.5, e - 14);
  });
}

// Two schedules on one optimizer multiply.
TEST(Schedulers, Together) {
  TwoGroups setup;
  optim::LinearLR warm_up(setup.optimizer, {.start_factor = 0.5, .total_iters = 4});
  optim::ExponentialLR decay(setup.optimizer, {.gamma = 0.9});
  for (int epoch = 0; epoch < 10; ++epoch) {
    const double expected = base * std::pow(0.9, epoch) * (0.5 + 0.125 * std::min(epoch, 4));
    ASSERT_NEAR(setup.optimizer.lr(0), expected, 1e-14) << epoch;
    warm_up.step();
    decay.step();
  }
}

TEST(Schedulers, Plateau) {
  TwoGroups setup;
  optim::ReduceLROnPlateau schedule(
      setup.optimizer, {.factor = 0.5, .patience = 2, .cooldown = 1, .min_lr = {0.15, 0}});
  const auto run = [&](std::vector<double> metrics) {
    for (double metric : metrics) schedule.step(metric);
    return setup.optimizer.lr(0);
  };
  EXPECT_EQ(run({1, 0.5, 0.5, 0.6}), base);   // two bad ones are tolerated
  EXPECT_EQ(run({0.49996}), base / 2);        // an improvement below the threshold is the third
  EXPECT_EQ(run({0.6, 0.6, 0.6}), base / 2);  // the first of these cools down
  EXPECT_EQ(run({0.6}), 0.15);                // no lower than min_lr
  EXPECT_EQ(setup.optimizer.lr(1), other / 4);
  EXPECT_EQ(run({0.4, 0.3, 0.2, 0.1}), 0.15);
  EXPECT_EQ(schedule.last_epoch(), 13);
  EXPECT_EQ(schedule.state_dict().numbers.at("best"), 0.1);

  TwoGroups rising;
  optim::ReduceLROnPlateau largest(rising.optimizer, {.mode = optim::PlateauMode::max,
                                                      .patience = 0,
                                                      .threshold = 0.5,
                                                      .threshold_mode = optim::ThresholdMode::abs});
  for (double metric : {1.0, 1.6, 2.2}) largest.step(metric);
  EXPECT_EQ(rising.optimizer.lr(0), base);
  largest.step(2.6);
  EXPECT_NEAR(rising.optimizer.lr(0), base / 10, 1e-15);
  largest.step(std::nan(""));
  EXPECT_NEAR(rising.optimizer.lr(0), base / 100, 1e-15);
}

// ---- saving and loading

// A schedule that was stepped, saved and loaded into a new one continues identically.
template <class Make>
void expect_resumes(const Make& make) {
  TwoGroups straight, before, after;
  auto whole = make(straight.optimizer), part = make(before.optimizer);
  for (int step = 0; step < 9; ++step) part->step();
  auto resumed = make(after.optimizer);
  after.optimizer.load_state_dict(before.optimizer.state_dict());
  resumed->load_state_dict(part->state_dict());
  for (int step = 0; step < 9; ++step) whole->step();
  for (int step = 0; step < 9; ++step) {
    ASSERT_EQ(after.optimizer.lr(0), straight.optimizer.lr(0)) << step;
    ASSERT_EQ(after.optimizer.momentum(1), straight.optimizer.momentum(1)) << step;
    whole->step();
    resumed->step();
  }
}

TEST(Schedulers, GoOnWhereTheyWereSaved) {
  using optim::Optimizer;
  expect_resumes(
      [](Optimizer& o) { return std::make_unique<optim::StepLR>(o, optim::StepLROptions{4}); });
  expect_resumes([](Optimizer& o) {
    return std::make_unique<optim::CosineAnnealingLR>(o, optim::CosineAnnealingLROptions{6});
  });
  expect_resumes([](Optimizer& o) {
    return std::make_unique<optim::CosineAnnealingWarmRestarts>(
        o, optim::CosineAnnealingWarmRestartsOptions{.t_0 = 3, .t_mult = 2});
  });
  expect_resumes([](Optimizer& o) {
    return std::make_unique<optim::OneCycleLR>(
        o, optim::OneCycleLROptions{.max_lr = 0.5, .total_steps = 30});
  });
  struct Sequence {
    optim::LinearLR first;
    optim::ExponentialLR second;
    optim::SequentialLR all;
    explicit Sequence(Optimizer& o)
        : first(o, {}), second(o, {.gamma = 0.9}), all(o, {first, second}, {6}) {}
    void step() { all.step(); }
    optim::StateDict state_dict() const { return all.state_dict(); }
    void load_state_dict(const optim::StateDict& saved) { all.load_state_dict(saved); }
  };
  expect_resumes([](Optimizer& o) { return std::make_unique<Sequence>(o); });
}

// ---- errors

TEST(Schedulers, OptionsOutsideTheirRange) {
  TwoGroups setup;
  optim::SGD& o = setup.optimizer;
  EXPECT_THROW(optim::StepLR(o, {}), ValueError);
  EXPECT_THROW(optim::StepLR(o, {.step_size = 2, .gamma = -1}), ValueError);
  EXPECT_THROW(optim::MultiStepLR(o, {.milestones = {4, 2}}), ValueError);
  EXPECT_THROW(optim::ExponentialLR(o, {}), ValueError);
  EXPECT_THROW(optim::LinearLR(o, {.start_factor = 0}), ValueError);
  EXPECT_THROW(optim::LinearLR(o, {.end_factor = 1.5}), ValueError);
  EXPECT_THROW(optim::LinearLR(o, {.total_iters = 0}), ValueError);
  EXPECT_THROW(optim::PolynomialLR(o, {.total_iters = -1}), ValueError);
  EXPECT_THROW(optim::CosineAnnealingLR(o, {}), ValueError);
  EXPECT_THROW(optim::CosineAnnealingWarmRestarts(o, {}), ValueError);
  EXPECT_THROW(optim::CosineAnnealingWarmRestarts(o, {.t_0 = 1, .t_mult = 0}), ValueError);
  EXPECT_THROW(optim::OneCycleLR(o, {.total_steps = 5}), ValueError);
  EXPECT_THROW(optim::OneCycleLR(o, {.max_lr = 1.0}), ValueError);
  EXPECT_THROW(optim::OneCycleLR(o, {.max_lr = {1, 2, 3}, .total_steps = 5}), ValueError);
  EXPECT_THROW(optim::OneCycleLR(o, {.max_lr = 1.0, .epochs = INT64_MAX, .steps_per_epoch = 9}),
               ValueError);
  EXPECT_THROW(optim::OneCycleLR(o, {.max_lr = 1.0, .total_steps = 5, .pct_start = 2}), ValueError);
  optim::Adagrad without({setup.first});
  EXPECT_THROW(optim::OneCycleLR(without, {.max_lr = 1.0, .total_steps = 5}), ValueError);
  EXPECT_THROW(optim::ReduceLROnPlateau(o, {.factor = 1}), ValueError);
  EXPECT_THROW(optim::ReduceLROnPlateau(o, {.patience = -1}), ValueError);
  // None of them has changed the optimizer.
  EXPECT_EQ(o.lr(0), base);
  EXPECT_FALSE(o.initial_lr(0).has_value());

  optim::StepLR mine(o, {.step_size = 2});
  optim::StepLR theirs(without, {.step_size = 2});
  EXPECT_THROW(optim::SequentialLR(o, {mine, theirs}, {3}), ValueError);
  EXPECT_THROW(optim::SequentialLR(o, {mine, mine}, {}), ValueError);
  EXPECT_THROW(mine.load_state_dict(theirs.state_dict()), ValueError);
  optim::CosineAnnealingWarmRestarts restarts(o, {.t_0 = 3});
  EXPECT_THROW(mine.load_state_dict(restarts.state_dict()), ValueError);
  EXPECT_THROW(restarts.load_state_dict(mine.state_dict()), ValueError);
  EXPECT_THROW(restarts.step(-1.0), ValueError);
  EXPECT_EQ(mine.last_epoch(), 0);
}

}  // namespace
}  // namespace extensor
