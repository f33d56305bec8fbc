#include "ops/optimizer_rule.h"

#include <cmath>

#include "core/check.h"
#include "extensor/error.h"

namespace extensor::ops {

namespace {

using backend::OptimizerCoefficients;
using detail::message;

void check_not_negative(const char* operation, const char* name, double value) {
  if (value >= 0 && std::isfinite(value)) return;
  throw ValueError(
      message(operation, ": ", name, " is ", value, ", must be finite and at least 0"));
}

void check_fraction(const char* operation, const char* name, double value) {
  if (value >= 0 && value < 1) return;
  throw ValueError(message(operation, ": ", name, " is ", value, ", must be in [0, 1)"));
}

void check_betas(const char* operation, const std::pair<double, double>& betas) {
  check_fraction(operation, "betas.first", betas.first);
  check_fraction(operation, "betas.second", betas.second);
}

}  // namespace

// ---- SGD
// -------------------------------------------------------------------------------------------

void OptimizerRule<SgdOptions>::check(const char* operation, const SgdOptions& o) {
  check_not_negative(operation, "lr", o.lr);
  check_not_negative(operation, "momentum", o.momentum);
  check_not_negative(operation, "weight_decay", o.weight_decay);
  if (!std::isfinite(o.dampening)) {
    throw ValueError(message(operation, ": dampening is ", o.dampening, ", must be finite"));
  }
  if (o.nesterov && (o.momentum == 0 || o.dampening != 0)) {
    throw ValueError(message(operation,
                             ": nesterov needs a momentum and no dampening, momentum is ",
                             o.momentum, " and dampening ", o.dampening));
  }
}

StateUses OptimizerRule<SgdOptions>::uses(const SgdOptions& o) {
  return {{{"momentum_buffer", o.momentum != 0}}};
}

OptimizerCoefficients OptimizerRule<SgdOptions>::coefficients(const SgdOptions& o,
                                                              std::int64_t step) {
  OptimizerCoefficients c;
  c.rate = o.lr;
  c.decay = o.weight_decay;
  c.momentum = o.momentum;
  c.gain = 1 - o.dampening;
  c.maximize = o.maximize;
  c.nesterov = o.nesterov;
  c.first = step == 1;
  return c;
}

// ---- Adam and AdamW: they differ in where the weight decay goes
// --------------------------------------------------------------

namespace {

template <class Options>
void check_adam(const char* operation, const Options& o) {
  check_not_negative(operation, "lr", o.lr);
  check_not_negative(operation, "eps", o.eps);
  check_not_negative(operation, "weight_decay", o.weight_decay);
  check_betas(operation, o.betas);
}

template <class Options>
StateUses adam_uses(const Options& o) {
  return {{{"exp_avg", true}, {"exp_avg_sq", true}, {"max_exp_avg_sq", o.amsgrad}}};
}

template <class Options>
OptimizerCoefficients adam_coefficients(const Options& o, std::int64_t step) {
  OptimizerCoefficients c;
  const auto count = static_cast<double>(step);
  c.beta1 = o.betas.first;
  c.beta2 = o.betas.second;
  c.rate = o.lr / (1 - std::pow(c.beta1, count));
  c.correction = 1 / std::sqrt(1 - std::pow(c.beta2, count));
  c.eps = o.eps;
  c.maximize = o.maximize;
  c.third = o.amsgrad;
  return c;
}

}  // namespace

void OptimizerRule<AdamOptions>::check(const char* operation, const AdamOptions& o) {
  check_adam(operation, o);
}
StateUses OptimizerRule<AdamOptions>::uses(const AdamOptions& o) { return adam_uses(o); }
OptimizerCoefficients OptimizerRule<AdamOptions>::coefficients(const AdamOptions& o,
                                                               std::int64_t step) {
  OptimizerCoefficients c = adam_coefficients(o, step);
  c.decay = o.weight_decay;
  return c;
}

void OptimizerRule<AdamWOptions>::check(const char* operation, const AdamWOptions& o) {
  check_adam(operation, o);
}
StateUses OptimizerRule<AdamWOptions>::uses(const AdamWOptions& o) { return adam_uses(o); }
OptimizerCoefficients OptimizerRule<AdamWOptions>::coefficients(const AdamWOptions& o,
                                                                std::int64_t step) {
  OptimizerCoefficients c = adam_coefficients(o, step);
  c.keep = 1 - o.lr * o.weight_decay;
  return c;
}

// ---- RMSprop
// ---------------------------------------------------------------------------------------

void OptimizerRule<RmspropOptions>::check(const char* operation, const RmspropOptions& o) {
  check_not_negative(operation, "lr", o.lr);
  check_not_negative(operation, "eps", o.eps);
  check_not_negative(operation, "weight_decay", o.weight_decay);
  check_not_negative(operation, "momentum", o.momentum);
  check_not_negative(operation, "alpha", o.alpha);
}

StateUses OptimizerRule<RmspropOptions>::uses(const RmspropOptions& o) {
  return {{{"square_avg", true}, {"momentum_buffer", o.momentum != 0}, {"grad_avg", o.centered}}};
}

OptimizerCoefficients OptimizerRule<RmspropOptions>::coefficients(const RmspropOptions& o,
                                                                  std::int64_t) {
  OptimizerCoefficients c;
  c.rate = o.lr;
  c.decay = o.weight_decay;
  c.momentum = o.momentum;
  c.beta2 = o.alpha;
  c.eps = o.eps;
  c.maximize = o.maximize;
  c.third = o.centered;
  return c;
}

// ---- Adagrad
// ---------------------------------------------------------------------------------------

void OptimizerRule<AdagradOptions>::check(const char* operation, const AdagradOptions& o) {
  check_not_negative(operation, "lr", o.lr);
  check_not_negative(operation, "lr_decay", o.lr_decay);
  check_not_negative(operation, "eps", o.eps);
  check_not_negative(operation, "weight_decay", o.weight_decay);
  check_not_negative(operation, "initial_accumulator_value", o.initial_accumulator_value);
}

StateUses OptimizerRule<AdagradOptions>::uses(const AdagradOptions&) { return {{{"sum", true}}}; }

OptimizerCoefficients OptimizerRule<AdagradOptions>::coefficients(const AdagradOptions& o,
                                                                  std::int64_t step) {
  OptimizerCoefficients c;
  c.rate = o.lr / (1 + static_cast<double>(step - 1) * o.lr_decay);
  c.decay = o.weight_decay;
  c.eps = o.eps;
  c.maximize = o.maximize;
  return c;
}

// ---- Lion
// ------------------------------------------------------------------------------------------

void OptimizerRule<LionOptions>::check(const char* operation, const LionOptions& o) {
  check_not_negative(operation, "lr", o.lr);
  check_not_negative(operation, "weight_decay", o.weight_decay);
  check_betas(operation, o.betas);
}

StateUses OptimizerRule<LionOptions>::uses(const LionOptions&) { return {{{"exp_avg", true}}}; }

OptimizerCoefficients OptimizerRule<LionOptions>::coefficients(const LionOptions& o, std::int64_t) {
  OptimizerCoefficients c;
  c.rate = o.lr;
  c.keep = 1 - o.lr * o.weight_decay;
  c.beta1 = o.betas.first;
  c.beta2 = o.betas.second;
  c.maximize = o.maximize;
  return c;
}

}  // namespace extensor::ops
