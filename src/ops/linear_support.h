// Shared by linear and by ops that contain it: checks of its operands, and rows.
#pragma once

#include "extensor/tensor.h"

namespace extensor::ops {

// The shape of linear(x, weight, bias), after every check that concerns them.
Shape linear_shape(const char* operation, const Tensor& x, const Tensor& weight,
                   const Tensor& bias);

// [..., n] as [rows, n].
Tensor as_matrix(const Tensor& x);

}  // namespace extensor::ops
