// How ops obey Autocast: those that are products begin with
//
//   if (ops::lowers(x, weight)) return linear(ops::lowered(x), ops::lowered(weight), …);
#pragma once

#include "extensor/autocast.h"
#include "extensor/tensor.h"

namespace extensor::ops {

// Whether one of these, undefined ones aside, is float32 under an Autocast.
bool lowers_one(const Tensor& x);
template <class... Tensors>
bool lowers(const Tensors&... operands) {
  return (lowers_one(operands) || ...);
}
// A float32 operand in the half dtype, others as they are.
Tensor lowered(const Tensor& x);

// Whether it is a half under an Autocast, and it in float32: for losses.
bool raises(const Tensor& x);
Tensor raised(const Tensor& x);

}  // namespace extensor::ops
