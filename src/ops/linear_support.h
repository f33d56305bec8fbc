// Operand checks and reshaping shared by linear and the ops that contain it.
#pragma once

#include "extensor/tensor.h"

namespace extensor::ops {

// Checks the operands and returns the shape of linear(x, weight, bias).
Shape linear_shape(const char* operation, const Tensor& x, const Tensor& weight,
                   const Tensor& bias);

// Reshapes [..., n] to [rows, n].
Tensor as_matrix(const Tensor& x);

}  // namespace extensor::ops
