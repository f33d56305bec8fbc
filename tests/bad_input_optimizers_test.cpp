// Learning rates, parameters and states that optimizers must reject.
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "support/child_process.h"

namespace {

using namespace extensor;
using test_support::expect_error;

constexpr double infinity = std::numeric_limits<double>::infinity();

Tensor leaf(const Shape& shape) { return full(shape, 0.5).requires_grad_(); }

template <class Options>
void expect_bad_rates(const char* name) {
  const Tensor w = leaf({3});
  for (double lr : {-1e-3, std::nan(""), infinity, -infinity}) {
    Options options;
    options.lr = lr;
    expect_error<ValueError>([&] { optim::OptimizerOf<Options>({w}, options); }, {name, "lr"}, {w});
    optim::OptimizerOf<Options> optimizer({w});
    const double before = optimizer.lr();
    expect_error<ValueError>([&] { optimizer.set_lr(0, lr); }, {name, "lr"}, {w});
    expect_error<ValueError>([&] { optimizer.set_options(0, options); }, {name, "lr"}, {w});
    expect_error<ValueError>([&] { optimizer.add_group({leaf({2})}, options); }, {name, "lr"}, {w});
    EXPECT_EQ(optimizer.lr(), before);
    EXPECT_EQ(optimizer.group_count(), 1u);
  }
}

CHILD_TEST(BadInputOptimizers, Item76LearningRateNanOrNegative) {
#define OPTIMIZER(name, Class, Options, ...) expect_bad_rates<Options>(#Class);
#include "extensor/tables/optimizers.def"
  Tensor param = ones({3});
  const Tensor grad = ones({3});
  LionState state{zeros({3})};
  for (double lr : {-1e-3, std::nan(""), infinity}) {
    expect_error<ValueError>([&] { lion_step(param, grad, state, 1, {.lr = lr}); },
                             {"lion_step", "lr"}, {param, grad, state.exp_avg});
  }
  expect_error<ValueError>(
      [&] {
        optim::Lion({leaf({2})}, {.betas = {1, 0.9}});
      },
      {"Lion", "betas.first"});
  expect_error<ValueError>([&] { optim::Adagrad({leaf({2})}, {.initial_accumulator_value = -1}); },
                           {"Adagrad", "initial_accumulator_value"});
}

CHILD_TEST(BadInputOptimizers, Item77NoParameters) {
  const std::vector<Tensor> none;
  expect_error<ValueError>([&] { optim::SGD optimizer(none); }, {"SGD", "no parameters"});
  expect_error<ValueError>([&] { optim::AdamW optimizer(none, {.lr = 1}); }, {"AdamW"});
  expect_error<ValueError>([&] { optim::Adam({{none, {}}, {none, {}}}); }, {"Adam", "2 groups"});
  const std::vector<optim::ParameterGroup<LionOptions>> no_groups;
  expect_error<ValueError>([&] { optim::Lion optimizer(no_groups); }, {"Lion", "0 groups"});
  expect_error<ValueError>([&] { optim::ExponentialMovingAverage average(none); },
                           {"ExponentialMovingAverage", "no parameters"});
  EXPECT_EQ(optim::clip_grad_norm(none, 1), 0);  // an empty list is valid
}

CHILD_TEST(BadInputOptimizers, ParametersThatCannotBe) {
  const Tensor w = leaf({3}), computed = w * 2.0;
  expect_error<ValueError>([&] { optim::SGD({w, Tensor()}); }, {"SGD", "parameter 1", "undefined"});
  expect_error<ValueError>([&] { optim::SGD({w, computed}); }, {"SGD", "parameter 1", "multiply"});
  expect_error<ValueError>([&] { optim::SGD({w, w}); }, {"SGD", "parameter 1", "twice"});
  expect_error<ValueError>([&] { optim::SGD({{{w}, {}}, {{w}, {}}}); }, {"SGD", "twice"});
  expect_error<DTypeError>([&] { optim::SGD({arange(3)}); }, {"SGD", "int64"});
  expect_error<ValueError>([&] { optim::SGD({ones({1}).broadcast_to({3})}); }, {"SGD"});
  optim::SGD optimizer({w});
  expect_error<IndexError>([&] { optimizer.lr(1); }, {"SGD", "group 1"});
  expect_error<IndexError>([&] { optimizer.set_lr(7, 1); }, {"SGD", "group 7"});
  expect_error<ValueError>([&] { optim::Adagrad({w}).set_momentum(0, 0.5); }, {"Adagrad"});
  expect_error<ValueError>([&] { optim::ExponentialMovingAverage({w}, 1.5); }, {"decay", "1.5"});
}

// Two parameters that share an element would update it twice.
CHILD_TEST(BadInputOptimizers, ParametersThatShareMemory) {
  const Tensor memory = arange(12).reshape({3, 4}).to(DType::float32);
  const auto part = [&](std::int64_t axis, std::int64_t begin, std::int64_t end) {
    return memory.slice(axis, begin, end).requires_grad_();
  };
  const Tensor rows = part(0, 0, 2), columns = part(1, 1, 2), alias = memory.detach();
  expect_error<ValueError>(
      [&] {
        optim::SGD({rows, columns});
      },
      {"SGD", "[2, 4]", "[3, 1]"}, {memory});
  expect_error<ValueError>([&] { optim::Adam({alias, leaf({2}), rows}); }, {"share memory"});
  expect_error<ValueError>([&] { optim::Adam({alias, memory}); }, {"share memory"});
  optim::SGD optimizer({rows});
  expect_error<ValueError>([&] { optimizer.add_group({columns}, {}); }, {"share memory"});
  EXPECT_EQ(optimizer.group_count(), 1u);
  // Adjacent and interleaved columns share no element.
  optimizer.add_group({part(0, 2, 3)}, {});
  const optim::SGD interleaved({part(1, 0, 1), part(1, 1, 2), part(1, 2, 4)});
  EXPECT_EQ(interleaved.parameters().size(), 3u);
}

// Nothing is written if a later gradient is invalid.
CHILD_TEST(BadInputOptimizers, AGradientThatSharesMemoryWithItsParameter) {
  const Tensor memory = arange(6).to(DType::float32);
  Tensor first = leaf({3}), second = memory.slice(0, 0, 4).requires_grad_();
  first.set_grad(ones({3}));
  second.set_grad(memory.slice(0, 1, 5));
  optim::Adam optimizer({first, second});
  expect_error<ValueError>([&] { optimizer.step(); }, {"Adam"}, {first, memory});
  EXPECT_TRUE(optimizer.state_dict().tensors.empty());
}

// ---- states

template <class Options>
void step_once(optim::OptimizerOf<Options>& optimizer) {
  for (Tensor w : optimizer.parameters()) w.set_grad(ones_like(w.detach()));
  optimizer.step();
}

void expect_same(const optim::StateDict& a, const optim::StateDict& b) {
  EXPECT_EQ(a.numbers, b.numbers);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (const auto& [name, tensor] : a.tensors) {
    EXPECT_EQ(tensor.to_vector<float>(), b.tensors.at(name).to_vector<float>()) << name;
  }
}

// A failed load leaves the optimizer unchanged: options, states and parameters.
template <class ErrorType, class Options>
void expect_refused(optim::OptimizerOf<Options>& optimizer, const optim::StateDict& foreign,
                    const std::vector<std::string>& parts) {
  const optim::StateDict before = optimizer.state_dict();
  expect_error<ErrorType>([&] { optimizer.load_state_dict(foreign); }, parts,
                          optimizer.parameters());
  expect_same(before, optimizer.state_dict());
}

CHILD_TEST(BadInputOptimizers, Item78StateOfAnotherModel) {
  optim::Adam optimizer({leaf({3, 2}), leaf({2})}, {.lr = 0.25});
  step_once(optimizer);
  const optim::StateDict own = optimizer.state_dict();
  const std::string load = "Adam.load_state_dict";

  optim::Adam other_shapes({leaf({2, 3}), leaf({2})});
  step_once(other_shapes);
  expect_refused<ShapeError>(optimizer, other_shapes.state_dict(),
                             {load, "state.0.exp_avg", "[2, 3]", "[3, 2]"});
  optim::Adam last_differs({leaf({3, 2}), leaf({7})});
  step_once(last_differs);
  expect_refused<ShapeError>(optimizer, last_differs.state_dict(), {load, "state.1", "[7]"});
  optim::Adam fewer({leaf({3, 2})});
  step_once(fewer);
  expect_refused<ValueError>(optimizer, fewer.state_dict(), {load, "1 parameters", "2"});
  optim::Adam more_groups({{{leaf({3, 2})}, {}}, {{leaf({2})}, {}}});
  step_once(more_groups);
  expect_refused<ValueError>(optimizer, more_groups.state_dict(),
                             {load, "2 parameter groups", "1"});
  optim::SGD sgd({leaf({3, 2}), leaf({2})}, {.momentum = 0.9});
  step_once(sgd);
  expect_refused<ValueError>(optimizer, sgd.state_dict(), {load});
  expect_refused<ValueError>(sgd, own, {"SGD.load_state_dict"});
  expect_refused<ValueError>(optimizer, {}, {load});

  const auto changed = [&](const std::function<void(optim::StateDict&)>& change) {
    optim::StateDict state = own;
    change(state);
    return state;
  };
  expect_refused<ValueError>(optimizer,
                             changed([](auto& s) { s.tensors.erase("state.1.exp_avg"); }),
                             {load, "state.1.exp_avg"});
  expect_refused<ValueError>(optimizer, changed([](auto& s) { s.numbers.erase("state.1.step"); }),
                             {load, "state.1.step"});
  expect_refused<ValueError>(optimizer,
                             changed([](auto& s) { s.tensors["state.2.exp_avg"] = ones({2}); }),
                             {load, "state.2.exp_avg"});
  expect_refused<ValueError>(optimizer, changed([](auto& s) { s.tensors["state.0.exp_avg"] = {}; }),
                             {load, "state.0.exp_avg"});
  expect_refused<ValueError>(
      optimizer, changed([](auto& s) { s.numbers["param_groups.0.lr"] = std::nan(""); }),
      {load, "lr"});
  for (double step : {0.0, -1.0, 1.5, 1e300, std::nan("")}) {
    expect_refused<ValueError>(optimizer,
                               changed([&](auto& s) { s.numbers["state.0.step"] = step; }),
                               {load, "state.0.step"});
  }
  expect_refused<ValueError>(optimizer,
                             changed([](auto& s) { s.numbers["param_groups.0.amsgrad"] = 0.5; }),
                             {load, "amsgrad"});
  expect_refused<ValueError>(optimizer,
                             changed([](auto& s) { s.numbers["param_groups.0.amsgrad"] = 1; }),
                             {load, "max_exp_avg_sq"});
  expect_refused<ValueError>(optimizer,
                             changed([](auto& s) { s.numbers["param_groups.0.initial_lr"] = -1; }),
                             {load, "initial_lr"});
  expect_refused<DTypeError>(
      optimizer, changed([](auto& s) { s.tensors["state.1.exp_avg"] = ones({2}, DType::int32); }),
      {load, "state.1.exp_avg", "int32"});
  optimizer.load_state_dict(own);  // its own state is accepted

  optim::ExponentialMovingAverage average({leaf({3, 2}), leaf({2})}), other({leaf({3, 3})});
  expect_error<ValueError>([&] { average.load_state_dict(other.state_dict()); },
                           {"1 parameters", "2"}, average.averages());
  optim::ExponentialMovingAverage wrong({leaf({3, 2}), leaf({5})});
  expect_error<ShapeError>([&] { average.load_state_dict(wrong.state_dict()); },
                           {"shadow_params.1", "[5]"}, average.averages());
  expect_error<ValueError>([&] { average.load_state_dict(own); }, {"decay"}, average.averages());
}

}  // namespace
