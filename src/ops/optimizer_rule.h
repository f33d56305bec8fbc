// What tells one optimizer from another: its options' ranges, its states, and what its kernel is
// given at a step. The steps on one parameter and the optimizers on many are made of these.
#pragma once

#include <cstdint>

#include "backend/optimizer_call.h"
#include "extensor/optimizer_steps.h"

namespace extensor::ops {

// A state by the name that PyTorch gives it, and whether options ask for it.
struct StateUse {
  const char* name = nullptr;
  bool used = false;
};
struct StateUses {
  StateUse states[backend::max_optimizer_states];
};

template <class Options>
struct OptimizerRule;

// operation: who is named in a ValueError for an option outside its range. step: counts from 1.
#define EXTENSOR_OPTIMIZER_RULE(Options, optimizer, kernel)                                  \
  template <>                                                                                \
  struct OptimizerRule<Options> {                                                            \
    static constexpr const char* name = optimizer;                                           \
    static constexpr backend::OptimizerOp op = backend::OptimizerOp::kernel;                 \
    static void check(const char* operation, const Options& options);                        \
    static StateUses uses(const Options& options);                                           \
    static backend::OptimizerCoefficients coefficients(const Options& o, std::int64_t step); \
  };
EXTENSOR_OPTIMIZER_RULE(SgdOptions, "SGD", sgd)
EXTENSOR_OPTIMIZER_RULE(AdamOptions, "Adam", adam)
EXTENSOR_OPTIMIZER_RULE(AdamWOptions, "AdamW", adam)
EXTENSOR_OPTIMIZER_RULE(RmspropOptions, "RMSprop", rmsprop)
EXTENSOR_OPTIMIZER_RULE(AdagradOptions, "Adagrad", adagrad)
EXTENSOR_OPTIMIZER_RULE(LionOptions, "Lion", lion)
#undef EXTENSOR_OPTIMIZER_RULE

// One step of any optimizer on one parameter in any layout; states as the rule lists them.
template <class Options>
void step_one(const char* operation, Tensor& param, const Tensor& grad, Tensor* const* states,
              std::int64_t step, const Options& options);

// ShapeError, DTypeError, DeviceError or ValueError unless a step may write param from grad.
void check_param_and_grad(const char* operation, const Tensor& param, const Tensor& grad);

}  // namespace extensor::ops
