// The optimizer family: one step of a list of parameters in place, and the size of a gradient.
#pragma once

#include <cstddef>
#include <cstdint>

#include "extensor/dtype.h"

namespace extensor::backend {

enum class OptimizerOp : std::uint8_t { sgd, adam, rmsprop, adagrad, lion, average };

// What a step needs of its options and of the number of the step; an op reads its own.
struct OptimizerCoefficients {
  double rate = 0;      // the parameter moves by −rate · direction
  double decay = 0;     // weight_decay, added to the gradient
  double keep = 1;      // the parameter is multiplied by it first: decoupled weight decay
  double momentum = 0;  // of SGD and RMSprop; 0: none
  double gain = 1;      // SGD: what a gradient weighs in the momentum
  double beta1 = 0;     // Adam's and Lion's averages; RMSprop's is beta2
  double beta2 = 0;
  double correction = 1;  // Adam: √v · correction + eps is the denominator
  double eps = 0;
  bool maximize = false;
  bool nesterov = false;
  bool first = false;  // SGD: the momentum is the gradient
  bool third = false;  // Adam: amsgrad's maximum; RMSprop: the average of centered
};

inline constexpr int max_optimizer_states = 3;

// One parameter, dense. States, null where the op or its options have none:
//   sgd     momentum
//   adam    average, average of squares, its maximum
//   rmsprop average of squares, momentum, average
//   adagrad sum of squares
//   lion    average
//   average the average of what `grad` points to, to which that comes closer by `rate`; no param
struct OptimizerItem {
  std::int64_t numel = 0;
  std::byte* param = nullptr;
  const std::byte* grad = nullptr;
  std::byte* states[max_optimizer_states] = {nullptr, nullptr, nullptr};
};

// The same step for every item, the work split over threads by elements. What an element becomes
// does not depend on the items beside it.
struct OptimizerCall {
  OptimizerOp op;
  DType dtype;         // of param and grad
  DType state_dtype;   // this one, or float32 beside halves
  std::int64_t numel;  // of all items together
  const OptimizerItem* items;
  std::int64_t item_count;
  OptimizerCoefficients coefficients;
};

// Σ |x|ᵖ in double, or max |x| for an infinite p; NaN if there is one. In fixed blocks.
struct PowerSumCall {
  DType dtype;
  std::int64_t numel;
  const std::byte* x;
  double power;
  double* out;
};

}  // namespace extensor::backend
