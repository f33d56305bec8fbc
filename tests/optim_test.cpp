// Optimizers against their references; the fused step against one parameter at a time; saving,
// skipped parameters, options and allocations.
#include "extensor/optim.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "extensor/extensor.h"
#include "op_database/optimizer_reference.h"
#include "support/allocations.h"
#include "support/compare.h"

namespace extensor {
namespace {

using compare::identical;
using compare::values_of;
using optim::Optimizer;
using Values = std::vector<double>;

constexpr int steps = 25;

// Numbers in [-1, 1) that vary with position and step.
Tensor numbers(const Shape& shape, int seed, DType dtype = DType::float64) {
  Values values(static_cast<std::size_t>(zeros(shape).numel()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<double>(i) * 12.9898 + seed * 78.233);
  }
  return from_data(values, shape).to(dtype);
}

std::vector<Tensor> leaves(const std::vector<Shape>& shapes, DType dtype = DType::float64) {
  std::vector<Tensor> made;
  for (std::size_t k = 0; k < shapes.size(); ++k) {
    made.push_back(numbers(shapes[k], static_cast<int>(k) + 1, dtype).clone().requires_grad_());
  }
  return made;
}

void set_gradients(std::vector<Tensor>& params, int step) {
  for (std::size_t k = 0; k < params.size(); ++k) {
    params[k].set_grad(
        numbers(params[k].shape(), 100 * step + static_cast<int>(k), params[k].dtype()));
  }
}

// ---- formulas

// A state as an optimizer initializes it.
template <class Options>
double first_value(const Options& o) {
  if constexpr (requires { o.initial_accumulator_value; }) return o.initial_accumulator_value;
  return 0;
}

// Calls check(first, second) for all adjacent options of every optimizer's reference.
template <class Check>
void for_each_pair_of_options(const Check& check) {
  op_database::for_each_optimizer(
      [&](const char* name, const auto& defaults, const auto&, const auto&) {
        const auto options = op_database::reference(defaults).options;
        for (std::size_t k = 0; k < options.size(); ++k) {
          const auto &first = options[k], &second = options[(k + 1) % options.size()];
          SCOPED_TRACE(testing::Message() << name << ", " << op_database::describe(first) << "; "
                                          << op_database::describe(second));
          check(first, second);
        }
      });
}

// Two groups with separate options; the last parameter has a gradient at odd steps only, and counts
// its steps separately.
template <class Options>
void check_formula(const Options& first, const Options& second) {
  std::vector<Tensor> params = leaves({{3, 5}, {}, {17}, {2, 2}});
  optim::OptimizerOf<Options> optimizer({{{params[0], params[1]}, first},  //
                                         {{params[2], params[3]}, second}});
  std::vector<Values> expected;
  for (const Tensor& p : params) expected.push_back(values_of(p));
  const auto reference = op_database::reference(first);
  std::vector<std::vector<std::array<double, op_database::most_states>>> states(4);
  for (std::size_t k = 0; k < 4; ++k) {
    states[k].resize(expected[k].size());
    for (auto& each : states[k]) each.fill(first_value(k < 2 ? first : second));
  }
  std::array<int, 4> count{};
  for (int step = 1; step <= steps; ++step) {
    set_gradients(params, step);
    if (step % 2 == 0) params[3].set_grad({});
    for (std::size_t k = 0; k < 4; ++k) {
      if (!params[k].grad().defined()) continue;
      const Options& options = k < 2 ? first : second;
      const Values g = values_of(params[k].grad());
      ++count[k];
      for (std::size_t i = 0; i < g.size(); ++i) {
        double& p = expected[k][i];
        p = reference.step(options, p, g[i], states[k][i].data(), count[k]);
      }
    }
    optimizer.step();
    for (std::size_t k = 0; k < 4; ++k) {
      const Values got = values_of(params[k]);
      for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], expected[k][i], 1e-12) << "parameter " << k << " step " << step;
      }
    }
  }
}

TEST(Optim, FollowTheirReferences) {
  for_each_pair_of_options(
      [](const auto& first, const auto& second) { check_formula(first, second); });
}

// ---- many parameters at once

const std::vector<Shape> many_shapes = {{40001}, {}, {0, 3}, {17}, {5, 7}, {20000}, {1}, {16384}};

// The fused step has the bits of single steps, for any number of threads.
TEST(Optim, AllAtOnceIsOneByOne) {
  const int before = get_num_threads();
  for (DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    const DType state = is_half(dtype) ? DType::float32 : dtype;
    std::vector<Tensor> one_by_one = leaves(many_shapes, dtype);
    std::vector<AdamState> states;
    for (const Tensor& p : one_by_one) {
      states.push_back({zeros(p.shape(), state), zeros(p.shape(), state)});
    }
    for (int step = 1; step <= 3; ++step) {
      set_gradients(one_by_one, step);
      for (std::size_t k = 0; k < one_by_one.size(); ++k) {
        adamw_step(one_by_one[k], one_by_one[k].grad(), states[k], step, {.lr = 0.1});
      }
    }
    for (int threads : {1, 2, 5}) {
      set_num_threads(threads);
      std::vector<Tensor> params = leaves(many_shapes, dtype);
      optim::AdamW optimizer(params, {.lr = 0.1});
      for (int step = 1; step <= 3; ++step) {
        set_gradients(params, step);
        optimizer.step();
      }
      for (std::size_t k = 0; k < params.size(); ++k) {
        EXPECT_TRUE(identical(params[k], one_by_one[k])) << name(dtype) << " " << k;
      }
      const optim::StateDict saved = optimizer.state_dict();
      EXPECT_TRUE(identical(saved.tensors.at("state.0.exp_avg"), states[0].exp_avg));
      EXPECT_TRUE(identical(saved.tensors.at("state.5.exp_avg_sq"), states[5].exp_avg_sq));
    }
  }
  set_num_threads(before);
}

// Several dtypes and layouts in one group.
TEST(Optim, MixedDTypesAndLayouts) {
  const auto make = [] {
    std::vector<Tensor> params = leaves({{8}, {8}, {4, 6}, {8}, {4, 6}});
    params[1] = params[1].detach().to(DType::bfloat16).requires_grad_();
    params[2] = params[2].detach().transpose().requires_grad_();
    params[3] = params[3].detach().to(DType::float32).requires_grad_();
    return params;
  };
  std::vector<Tensor> together = make(), apart = make();
  optim::Adam optimizer(together, {.lr = 0.1});
  std::vector<std::unique_ptr<optim::Adam>> single;
  for (const Tensor& p : apart) {
    single.push_back(std::make_unique<optim::Adam>(std::vector<Tensor>{p}, AdamOptions{.lr = 0.1}));
  }
  for (int step = 1; step <= 4; ++step) {
    for (std::vector<Tensor>* params : {&together, &apart}) {
      set_gradients(*params, step);
      // A gradient that is not dense.
      Tensor wide = numbers({4, 12}, step);
      (*params)[4].set_grad(wide.slice(1, 0, 12, 2));
    }
    optimizer.step();
    for (const auto& one : single) one->step();
    for (std::size_t k = 0; k < together.size(); ++k) {
      EXPECT_TRUE(identical(together[k], apart[k])) << k << " " << step;
    }
  }
  EXPECT_EQ(optimizer.state_dict().tensors.at("state.1.exp_avg").dtype(), DType::float32);
  // The transposed one is updated in place.
  Tensor expected = leaves({{8}, {8}, {4, 6}})[2].detach().clone();
  AdamState state{zeros({4, 6}, DType::float64), zeros({4, 6}, DType::float64)};
  for (int step = 1; step <= 4; ++step) {
    adam_step(expected, numbers({6, 4}, 100 * step + 2).transpose(), state, step, {.lr = 0.1});
  }
  EXPECT_TRUE(identical(together[2].detach().transpose().contiguous(), expected));
}

TEST(Optim, AStepAllocatesNothing) {
  std::vector<Tensor> params = leaves({{4, 16}, {16}, {16, 2}, {2}}, DType::float32);
  set_gradients(params, 1);
  optim::AdamW adamw(params);
  optim::SGD sgd(params, {.momentum = 0.9});
  adamw.step();
  sgd.step();
  const std::size_t before = test_support::allocations, tensors = memory_stats().allocations;
  for (int step = 0; step < 10; ++step) {
    adamw.step();
    sgd.step();
  }
  EXPECT_EQ(test_support::allocations, before);
  EXPECT_EQ(memory_stats().allocations, tensors);
}

// ---- with autograd

TEST(Optim, TrainsWithoutRecording) {
  Tensor w = full({3}, 2.0, DType::float64).requires_grad_();
  optim::SGD optimizer({w}, {.lr = 0.25});
  for (int step = 0; step < 20; ++step) {
    optimizer.zero_grad();
    sum(square(w - 1.0)).backward();
    const std::uint64_t version = w.impl().storage->version;
    optimizer.step();
    EXPECT_GT(w.impl().storage->version, version);
    EXPECT_TRUE(w.is_leaf() && w.requires_grad());
  }
  for (double value : values_of(w)) EXPECT_NEAR(value, 1 + std::ldexp(1, -20), 1e-12);
  // A graph recorded before a step detects that its inputs have changed.
  const Tensor loss = sum(square(w));
  optimizer.step();
  EXPECT_THROW(loss.backward(), ValueError);
}

TEST(Optim, WithoutAGradientNothingMoves) {
  std::vector<Tensor> params = leaves({{3}, {3}});
  const Tensor frozen = numbers({3}, 9).clone();  // requires no gradient
  optim::Adam optimizer({params[0], params[1], frozen});
  const Values before = values_of(params[1]);
  optimizer.step();
  EXPECT_TRUE(optimizer.state_dict().tensors.empty());
  params[0].set_grad(ones({3}, DType::float64));
  optimizer.step();
  const optim::StateDict saved = optimizer.state_dict();
  EXPECT_EQ(saved.tensors.size(), 2u);
  EXPECT_EQ(saved.numbers.at("state.0.step"), 1);
  EXPECT_FALSE(saved.numbers.contains("state.1.step"));
  EXPECT_EQ(values_of(params[1]), before);
}

TEST(Optim, ZeroGrad) {
  std::vector<Tensor> params = leaves({{3}, {2}});
  optim::SGD optimizer(params);
  params[0].set_grad(ones({3}, DType::float64));
  optimizer.zero_grad(false);
  EXPECT_EQ(values_of(params[0].grad()), Values(3, 0));
  EXPECT_FALSE(params[1].grad().defined());
  sum(square(params[0])).backward({.create_graph = true});
  optimizer.zero_grad(false);
  EXPECT_FALSE(params[0].grad().requires_grad());
  EXPECT_EQ(values_of(params[0].grad()), Values(3, 0));
  optimizer.zero_grad();
  EXPECT_FALSE(params[0].grad().defined());
}

// The gradients of parts of a batch add up to that of the batch: `parts` times loss / parts, then
// one step.
TEST(Optim, GradientAccumulation) {
  const Tensor x = numbers({12, 4}, 1), y = numbers({12, 2}, 2);
  constexpr int parts = 3;
  std::vector<Tensor> whole = leaves({{4, 2}, {2}}), in_parts = leaves({{4, 2}, {2}});
  optim::AdamW whole_optimizer(whole, {.lr = 0.05}), optimizer(in_parts, {.lr = 0.05});
  const auto loss = [](const std::vector<Tensor>& p, const Tensor& x, const Tensor& y) {
    return mean(square(matmul(x, p[0]) + p[1] - y));
  };
  for (int batch = 0; batch < 8; ++batch) {
    whole_optimizer.zero_grad();
    loss(whole, x, y).backward();
    whole_optimizer.step();

    for (int part = 0; part < parts; ++part) {
      const Tensor some_x = x.slice(0, part * 4, part * 4 + 4);
      const Tensor some_y = y.slice(0, part * 4, part * 4 + 4);
      (loss(in_parts, some_x, some_y) / parts).backward();
      if ((part + 1) % parts == 0) {
        optimizer.step();
        optimizer.zero_grad();
      }
    }
    for (std::size_t k = 0; k < whole.size(); ++k) {
      EXPECT_TRUE(allclose(in_parts[k].detach(), whole[k].detach(), 1e-12, 1e-12)) << batch;
    }
  }
}

TEST(Optim, ClipsTheGradientsOfParameters) {
  std::vector<Tensor> params = leaves({{3}, {2}, {4}});
  params[0].set_grad(full({3}, 2.0, DType::float64));
  params[2].set_grad(full({4}, -1.0, DType::float64));
  EXPECT_DOUBLE_EQ(optim::clip_grad_norm(params, 100), 4);
  EXPECT_EQ(values_of(params[0].grad()), Values(3, 2));
  EXPECT_DOUBLE_EQ(optim::clip_grad_norm(params, 1), 4);
  EXPECT_NEAR(values_of(params[0].grad())[1], 0.5, 1e-6);
  EXPECT_NEAR(values_of(params[2].grad())[1], -0.25, 1e-6);
  optim::clip_grad_value(params, 0.3);
  EXPECT_EQ(values_of(params[0].grad()), Values(3, 0.3));
  EXPECT_NEAR(values_of(params[2].grad())[0], -0.25, 1e-6);
  EXPECT_EQ(optim::clip_grad_norm(leaves({{2}}), 1), 0);
}

// ---- groups and options

TEST(Optim, GroupsAndOptions) {
  const std::vector<Tensor> body = leaves({{3}, {2}}), head = leaves({{4}});
  optim::SGD optimizer({{body, {.lr = 1e-3}}, {head, {.lr = 1e-2, .momentum = 0.9}}});
  EXPECT_EQ(optimizer.group_count(), 2u);
  EXPECT_EQ(optimizer.lr(0), 1e-3);
  EXPECT_EQ(optimizer.lr(1), 1e-2);
  EXPECT_EQ(optimizer.momentum(1), 0.9);
  EXPECT_EQ(optimizer.parameters(1).size(), 1u);
  EXPECT_EQ(optimizer.parameters().size(), 3u);
  optimizer.set_lr(1, 0.5);
  optimizer.set_momentum(0, 0.25);
  EXPECT_EQ(optimizer.options(1).lr, 0.5);
  EXPECT_EQ(optimizer.options(0).momentum, 0.25);
  optimizer.add_group(leaves({{5}}), {.lr = 3});
  EXPECT_EQ(optimizer.lr(2), 3);
  optim::Lion one_group({{head, {.lr = 2}}});
  EXPECT_EQ(one_group.lr(), 2);
  EXPECT_EQ(one_group.momentum(), 0.9);
  optim::Adam defaults(head);
  EXPECT_EQ(defaults.lr(), 1e-3);
  EXPECT_TRUE(defaults.has_momentum());
  EXPECT_FALSE(optim::Adagrad(head).has_momentum());
}

// A momentum that starts late starts with the gradient of that step, as in PyTorch.
TEST(Optim, MomentumThatBeginsLate) {
  Tensor w = ones({1}, DType::float64).requires_grad_();
  optim::SGD optimizer({w}, {.lr = 1});
  w.set_grad(ones({1}, DType::float64));
  optimizer.step();
  optimizer.set_options(0, {.lr = 1, .momentum = 0.5, .dampening = 0.25});
  optimizer.step();
  EXPECT_EQ(values_of(w)[0], -1);
  optimizer.step();
  EXPECT_EQ(values_of(w)[0], -1 - (0.5 + 0.75));
}

// ---- saving and loading

template <class Options>
void check_resume(const Options& first, const Options& second) {
  const std::vector<Shape> shapes = {{3, 2}, {5}, {4}};
  const auto make = [&](const std::vector<Tensor>& p) {
    return std::make_unique<optim::OptimizerOf<Options>>(
        std::vector<optim::ParameterGroup<Options>>{{{p[0]}, first}, {{p[1], p[2]}, second}});
  };
  std::vector<Tensor> params = leaves(shapes);
  auto optimizer = make(params);
  const auto run = [](std::vector<Tensor>& params, Optimizer& optimizer, int from, int to) {
    for (int step = from; step < to; ++step) {
      set_gradients(params, step);
      if (step < 2) params[2].set_grad({});
      optimizer.step();
    }
  };
  run(params, *optimizer, 0, 5);
  optimizer->set_lr(1, 0.03);
  const optim::StateDict saved = optimizer->state_dict();
  std::vector<Tensor> copies;
  for (const Tensor& p : params) copies.push_back(p.detach().clone().requires_grad_());
  run(params, *optimizer, 5, 9);  // must not affect the saved state

  auto resumed = std::make_unique<optim::OptimizerOf<Options>>(
      std::vector<optim::ParameterGroup<Options>>{{{copies[0]}}, {{copies[1], copies[2]}}});
  resumed->load_state_dict(saved);
  EXPECT_EQ(resumed->lr(1), 0.03);
  run(copies, *resumed, 5, 9);
  for (std::size_t k = 0; k < params.size(); ++k) EXPECT_TRUE(identical(params[k], copies[k])) << k;
  const optim::StateDict a = optimizer->state_dict(), b = resumed->state_dict();
  EXPECT_EQ(a.numbers, b.numbers);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (const auto& [name, tensor] : a.tensors) EXPECT_TRUE(identical(tensor, b.tensors.at(name)));
}

TEST(Optim, GoesOnWhereItWasSaved) {
  for_each_pair_of_options(
      [](const auto& first, const auto& second) { check_resume(first, second); });
}

// Checkpoints contain these names: they must not change.
TEST(Optim, OptionNamesArePyTorchs) {
  const auto names = [](const Optimizer& optimizer) {
    std::string all;
    for (const auto& [name, number] : optimizer.state_dict().numbers) {
      all += name.substr(std::string("param_groups.0.").size()) + " ";
    }
    return all;
  };
  const std::vector<Tensor> params = leaves({{2}});
  EXPECT_EQ(names(optim::SGD(params)),
            "dampening lr maximize momentum nesterov params weight_decay ");
  EXPECT_EQ(names(optim::Adam(params)),
            "amsgrad betas.0 betas.1 eps lr maximize params weight_decay ");
  EXPECT_EQ(names(optim::AdamW(params)),
            "amsgrad betas.0 betas.1 eps lr maximize params weight_decay ");
  EXPECT_EQ(names(optim::RMSprop(params)),
            "alpha centered eps lr maximize momentum params weight_decay ");
  EXPECT_EQ(names(optim::Adagrad(params)),
            "eps initial_accumulator_value lr lr_decay maximize params weight_decay ");
  EXPECT_EQ(names(optim::Lion(params)), "betas.0 betas.1 lr maximize params weight_decay ");
}

TEST(Optim, StateNamesArePyTorchs) {
  std::vector<Tensor> params = leaves({{2}, {3}});
  set_gradients(params, 1);
  optim::Adam optimizer(params, {.amsgrad = true});
  optimizer.step();
  optim::StateDict saved = optimizer.state_dict();
  for (const char* name : {"state.0.exp_avg", "state.0.exp_avg_sq", "state.1.max_exp_avg_sq"}) {
    EXPECT_TRUE(saved.tensors.contains(name)) << name;
  }
  EXPECT_EQ(saved.numbers.at("state.1.step"), 1);
  EXPECT_EQ(saved.numbers.at("param_groups.0.betas.1"), 0.999);
  EXPECT_EQ(saved.numbers.at("param_groups.0.amsgrad"), 1);
  EXPECT_EQ(saved.numbers.at("param_groups.0.params"), 2);
  // A state of another float dtype is converted.
  for (auto& [name, tensor] : saved.tensors) tensor = tensor.to(DType::float32);
  optimizer.load_state_dict(saved);
  EXPECT_EQ(optimizer.state_dict().tensors.at("state.0.exp_avg").dtype(), DType::float64);
}

// ---- averages of weights

TEST(MovingAverage, FollowsTheWeights) {
  std::vector<Tensor> params = leaves({{5}, {2, 3}});
  params.push_back(numbers({40000}, 3, DType::bfloat16).clone().requires_grad_());
  params.push_back(numbers({3, 4}, 3).transpose().requires_grad_());
  optim::ExponentialMovingAverage average(params, 0.9);
  std::vector<Values> expected;
  for (const Tensor& p : params) expected.push_back(values_of(p));
  for (int step = 1; step <= 10; ++step) {
    for (std::size_t k = 0; k < params.size(); ++k) {
      const NoGrad off;
      params[k].copy_from(numbers(params[k].shape(), 10 * step, params[k].dtype()));
      const Values now = values_of(params[k]);
      for (std::size_t i = 0; i < now.size(); ++i) {
        expected[k][i] = 0.9 * expected[k][i] + 0.1 * now[i];
      }
    }
    average.update();
    for (std::size_t k = 0; k < params.size(); ++k) {
      const Values got = values_of(average.averages()[k]);
      for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], expected[k][i], k == 2 ? 1e-6 : 1e-14) << k;
      }
    }
  }
  EXPECT_EQ(average.averages()[2].dtype(), DType::float32);
}

TEST(MovingAverage, IsAppliedAndTakenBack) {
  std::vector<Tensor> params = leaves({{5}, {2}}), others = leaves({{5}, {2}});
  const Values original = values_of(params[0]);
  optim::ExponentialMovingAverage average(params, 0.5);
  {
    const NoGrad off;
    params[0] += 2.0;
  }
  const Values trained = values_of(params[0]);
  average.update();
  average.apply();
  EXPECT_TRUE(average.applied());
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(values_of(params[0])[i], original[i] + 1, 1e-15);
  }
  EXPECT_THROW(average.update(), ValueError);
  EXPECT_THROW(average.apply(), ValueError);
  average.restore();
  EXPECT_EQ(values_of(params[0]), trained);
  EXPECT_THROW(average.restore(), ValueError);
  average.apply_to(others);
  EXPECT_EQ(values_of(others[0]), values_of(average.averages()[0]));
  EXPECT_TRUE(others[0].requires_grad() && others[0].is_leaf());
  EXPECT_THROW(average.apply_to({params[0]}), ValueError);
  EXPECT_THROW(average.apply_to(leaves({{5}, {3}})), ShapeError);

  optim::ExponentialMovingAverage again(others, 0.1);
  again.load_state_dict(average.state_dict());
  EXPECT_EQ(again.decay(), 0.5);
  EXPECT_TRUE(identical(again.averages()[0], average.averages()[0]));
  EXPECT_EQ(again.state_dict().numbers.at("num_updates"), 1);
}

}  // namespace
}  // namespace extensor
