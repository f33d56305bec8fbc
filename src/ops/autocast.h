// Autocast support. Ops that are products begin with
//
//   if (ops::lowers(x, weight)) return linear(ops::lowered(x), ops::lowered(weight), …);
#pragma once

#include "extensor/autocast.h"
#include "extensor/tensor.h"

namespace extensor::ops {

// Whether x (or, for lowers, any operand) is defined and float32 while Autocast is active.
bool lowers_one(const Tensor& x);
template <class... Tensors>
bool lowers(const Tensors&... operands) {
  return (lowers_one(operands) || ...);
}
// Converts a float32 operand to the half dtype; returns any other operand unchanged.
Tensor lowered(const Tensor& x);

// For losses: whether x is a half while Autocast is active, and x as float32.
bool raises(const Tensor& x);
Tensor raised(const Tensor& x);

}  // namespace extensor::ops
