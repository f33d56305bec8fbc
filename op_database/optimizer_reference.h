// References of the optimizers in extensor/tables/optimizers.def: the step of one element in plain
// doubles, and options to test it with.
#pragma once

#include <string>
#include <vector>

#include "extensor/optimizer_steps.h"
#include "extensor/reflect.h"

namespace extensor::op_database {

template <class Options>
struct OptimizerReference {
  std::string formula;           // for docs/ops.md
  std::vector<Options> options;  // together they reach every branch of the step
  // The parameter p after a step with gradient g. The states are the members of the State struct in
  // order; states that the options do not use are unchanged. step counts from 1.
  double (*step)(const Options& o, double p, double g, double* states, int step);
};

// reference(SgdOptions()) and so on.
#define OPTIMIZER(name, Class, Options, ...) OptimizerReference<Options> reference(const Options&);
#include "extensor/tables/optimizers.def"

inline constexpr std::size_t most_states = 3;

// ---- the functions of a row, selected by the type of its options

// visit(name, Options(), State(), step function) for every optimizer.
template <class Visit>
void for_each_optimizer(const Visit& visit) {
#define OPTIMIZER(name, Class, Options, State, ...)                                             \
  visit(#name, Options(), State(),                                                              \
        [](Tensor& param, const Tensor& grad, State& state, int step, const Options& options) { \
          name##_step(param, grad, state, step, options);                                       \
        });
#include "extensor/tables/optimizers.def"
}

// The tensors of a State struct, in order.
template <class State>
std::vector<Tensor*> tensors_of(State& state) {
  return reflect::with_members<reflect::member_count<State, false>>(
      state, [](auto&... members) { return std::vector<Tensor*>{&members...}; });
}

// "lr=0.100000, nesterov=1": the options that differ from the defaults.
template <class Options>
std::string describe(const Options& options) {
  constexpr std::size_t n = reflect::member_count<Options, false>;
  std::string text;
  const auto append = [&](std::string_view name, const auto& value, const auto& usual) {
    if (value == usual) return;
    text += (text.empty() ? "" : ", ") + std::string(name) + "=";
    if constexpr (requires { value.first; }) {
      text += std::to_string(value.first) + " and " + std::to_string(value.second);
    } else {
      text += std::to_string(value);
    }
  };
  const Options defaults;
  reflect::with_members<n>(options, [&](const auto&... values) {
    reflect::with_members<n>(defaults, [&](const auto&... usual) {
      [&]<std::size_t... k>(std::index_sequence<k...>) {
        (append(reflect::member_name<Options, n, k>(), values, usual), ...);
      }
      (std::make_index_sequence<n>());
    });
  });
  return text.empty() ? "defaults" : text;
}

}  // namespace extensor::op_database
