// Clipping the gradients of parameters, between backward() and step().
//
//   optim::clip_grad_norm(model.parameters(), 1.0);
//
// Parameters without a gradient are skipped. extensor/optimizer_steps.h has the same functions for
// gradients.
#pragma once

#include <vector>

#include "extensor/export.h"
#include "extensor/optimizer_steps.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor::optim {

// Scales the gradients if their joint norm exceeds max_norm, and returns that norm. Converting the
// norm to double waits for its device. Throws ValueError for a negative max_norm, for a norm_type
// that is not positive and, on request, for a norm that is not finite.
GradientNorm clip_grad_norm(const std::vector<Tensor>& parameters, StrictDouble max_norm,
                            StrictDouble norm_type = 2, StrictBool error_if_nonfinite = false);

// Clips every element of every gradient to [−clip_value, clip_value].
void clip_grad_value(const std::vector<Tensor>& parameters, StrictDouble clip_value);

}  // namespace extensor::optim

EXTENSOR_END_API
