// LBFGS and LambdaLR.
#include "extensor/optim/lbfgs.h"

#include <gtest/gtest.h>

#include <cmath>

#include "extensor/extensor.h"
#include "support/child_process.h"
#include "support/compare.h"

namespace extensor {
namespace {

using optim::LBFGS;
using optim::LineSearch;
using test_support::expect_error;

// Σ 100 (x[i + 1] − x[i]²)² + (1 − x[i])², whose minimum is at 1.
Tensor rosenbrock(const Tensor& x) {
  const Tensor a = x.slice(0, 0, -1), b = x.slice(0, 1);
  return sum(100 * square(b - square(a)) + square(1 - a));
}

struct Problem {
  Tensor x = full({6}, -1.2, float64).requires_grad_();
  int calls = 0;
  Tensor operator()() {
    ++calls;
    x.set_grad(Tensor());
    const Tensor loss = rosenbrock(x);
    loss.backward();
    return loss;
  }
};

TEST(Lbfgs, FindsTheMinimumOfRosenbrock) {
  Problem problem;
  LBFGS optimizer({problem.x}, {.max_iter = 200, .line_search = LineSearch::strong_wolfe});
  const Tensor first = optimizer.step(std::ref(problem));
  EXPECT_NEAR(first.item<double>(), rosenbrock(full({6}, -1.2, float64)).item<double>(), 1e-9);
  EXPECT_TRUE(allclose(problem.x.detach(), ones({6}, float64), 1e-6, 1e-6)) << problem.x;
  EXPECT_LE(problem.calls, 250);
}

TEST(Lbfgs, SolvesAQuadraticInFewIterations) {
  const Tensor scale = tensor({1.0, 3.0, 10.0, 40.0});
  Tensor x = tensor({1.0, -2.0, 3.0, -1.0}).requires_grad_();
  LBFGS optimizer({x}, {.max_iter = 30,
                        .max_eval = 60,
                        .tolerance_grad = 1e-10,
                        .tolerance_change = 0,
                        .line_search = LineSearch::strong_wolfe});
  optimizer.step([&] {
    optimizer.zero_grad();
    const Tensor loss = sum(scale * square(x)) / 2;
    loss.backward();
    return loss;
  });
  EXPECT_LT(max(abs(x.detach())).item<double>(), 1e-6);
}

// One iteration without a line search is a gradient step of length min(1, 1 / |g|₁) · lr.
TEST(Lbfgs, TheFirstIterationFollowsTheGradient) {
  Tensor a = tensor({1.0, 2.0}).requires_grad_(), b = tensor({{3.0}}).requires_grad_();
  LBFGS optimizer({a, b}, {.lr = 0.5, .max_iter = 1});
  optimizer.step([&] {
    optimizer.zero_grad();
    const Tensor loss = sum(a * a) + sum(b);
    loss.backward();
    return loss;
  });
  const double length = 0.5 / 7;  // |g|₁ = 2 + 4 + 1
  EXPECT_TRUE(allclose(a.detach(), tensor({1 - 2 * length, 2 - 4 * length}), 1e-12));
  EXPECT_TRUE(allclose(b.detach(), tensor({{3 - length}}), 1e-12));
}

TEST(Lbfgs, ResumesFromItsState) {
  const auto run = [](int steps, int resume_after) {
    Problem problem;
    const optim::LBFGSOptions options{
        .max_iter = 4, .history_size = 3, .line_search = LineSearch::strong_wolfe};
    auto optimizer = std::make_unique<LBFGS>(std::vector<Tensor>{problem.x}, options);
    for (int k = 0; k < steps; ++k) {
      if (k == resume_after) {
        const optim::StateDict saved = optimizer->state_dict();
        optimizer = std::make_unique<LBFGS>(std::vector<Tensor>{problem.x}, options);
        optimizer->load_state_dict(saved);
      }
      optimizer->step(std::ref(problem));
    }
    return problem.x.detach();
  };
  EXPECT_TRUE(compare::identical(run(6, -1), run(6, 3)));
}

CHILD_TEST(BadInputLbfgs, InvalidArguments) {
  Tensor x = ones({3}).requires_grad_();
  expect_error<ValueError>([&] { LBFGS({}, {}); }, {"LBFGS", "no parameters"}, {});
  expect_error<ValueError>([&] { LBFGS({x, x}); }, {"LBFGS", "twice"}, {});
  expect_error<ValueError>([&] { LBFGS({x}, {.lr = 0}); }, {"LBFGS", "lr"}, {});
  expect_error<ValueError>([&] { LBFGS({x}, {.max_iter = 0}); }, {"max_iter"}, {});
  expect_error<ValueError>([&] { LBFGS({x}, {.history_size = 0}); }, {"history_size"}, {});
  expect_error<DTypeError>([&] { LBFGS({x, ones({2}, float64)}); }, {"float64"}, {});
  LBFGS optimizer({x});
  expect_error<ValueError>([&] { optimizer.step({}); }, {"closure"}, {});
  expect_error<ValueError>([&] { optimizer.step([&] { return ones({2}); }); }, {"[2]"}, {});
  expect_error<ValueError>([&] { optimizer.load_state_dict({}); }, {"LBFGS"}, {});
}

TEST(LambdaLr, MultipliesTheInitialRate) {
  Tensor a = ones({2}).requires_grad_(), b = ones({2}).requires_grad_();
  optim::SGD optimizer(
      std::vector<optim::ParameterGroup<SgdOptions>>{{{a}, {.lr = 0.5}}, {{b}, {.lr = 2.0}}});
  optim::LambdaLR schedule(optimizer, {[](std::int64_t epoch) { return std::pow(0.5, epoch); },
                                       [](std::int64_t epoch) { return epoch < 2 ? 1.0 : 0.1; }});
  for (int epoch = 0; epoch < 5; ++epoch) {
    EXPECT_DOUBLE_EQ(optimizer.lr(0), 0.5 * std::pow(0.5, epoch));
    EXPECT_DOUBLE_EQ(optimizer.lr(1), epoch < 2 ? 2.0 : 2.0 * 0.1);
    schedule.step();
  }
}

TEST(LambdaLr, OneFunctionServesAllGroupsAndStateResumes) {
  Tensor a = ones({2}).requires_grad_();
  optim::SGD optimizer({a}, {.lr = 1});
  const auto factor = [](std::int64_t epoch) { return 1.0 / static_cast<double>(epoch + 1); };
  optim::LambdaLR schedule(optimizer, factor);
  schedule.step();
  schedule.step();
  const optim::StateDict saved = schedule.state_dict();
  optim::SGD other({a}, {.lr = 1});
  optim::LambdaLR resumed(other, factor);
  resumed.load_state_dict(saved);
  resumed.step();
  EXPECT_DOUBLE_EQ(other.lr(), 0.25);
}

CHILD_TEST(BadInputLambdaLr, InvalidFunctions) {
  Tensor a = ones({2}).requires_grad_();
  optim::SGD optimizer({a}, {.lr = 1});
  expect_error<ValueError>([&] { optim::LambdaLR(optimizer, optim::LambdaLR::Factor()); },
                           {"LambdaLR", "empty"}, {});
  expect_error<ValueError>(
      [&] { optim::LambdaLR(optimizer, std::vector<optim::LambdaLR::Factor>{}); },
      {"LambdaLR", "groups"}, {});
  expect_error<ValueError>([&] { optim::LambdaLR(optimizer, [](std::int64_t) { return -1.0; }); },
                           {"LambdaLR", "-1"}, {});
}

}  // namespace
}  // namespace extensor
