// The options by the names that PyTorch gives them, for saving and loading.
#pragma once

#include "extensor/optimizer_steps.h"

namespace extensor::optim {

// Calls visit(name, field) for every field: a double or a bool.
template <class Options, class Visit>
void visit_fields(Options& o, const Visit& visit) {
  visit("lr", o.lr);
  visit("weight_decay", o.weight_decay);
  visit("maximize", o.maximize);
  if constexpr (requires { o.betas; }) {
    visit("betas.0", o.betas.first);
    visit("betas.1", o.betas.second);
  }
  if constexpr (requires { o.momentum; }) visit("momentum", o.momentum);
  if constexpr (requires { o.eps; }) visit("eps", o.eps);
  if constexpr (requires { o.dampening; }) visit("dampening", o.dampening);
  if constexpr (requires { o.nesterov; }) visit("nesterov", o.nesterov);
  if constexpr (requires { o.amsgrad; }) visit("amsgrad", o.amsgrad);
  if constexpr (requires { o.alpha; }) visit("alpha", o.alpha);
  if constexpr (requires { o.centered; }) visit("centered", o.centered);
  if constexpr (requires { o.lr_decay; }) visit("lr_decay", o.lr_decay);
  if constexpr (requires { o.initial_accumulator_value; }) {
    visit("initial_accumulator_value", o.initial_accumulator_value);
  }
}

}  // namespace extensor::optim
