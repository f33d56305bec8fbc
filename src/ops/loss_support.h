// Shared by all losses: reductions, and the checks of their gradients.
#pragma once

#include "backend/loss_call.h"
#include "extensor/losses.h"

namespace extensor::ops {

backend::LossReduction loss_reduction(Reduction reduction);

// The shape of a loss whose values have `shape`.
inline Shape loss_shape(const Shape& shape, Reduction reduction) {
  return reduction == Reduction::none ? shape : Shape{};
}

// The values reduced, and the factor that the reduction gives to a gradient of its result.
Tensor reduced_loss(const Tensor& values, Reduction reduction);
double loss_scale(std::int64_t count, Reduction reduction);

// ValueError, quoting the rule, for a parameter that is not allowed.
void check_parameter(const char* operation, const char* name, double value, bool allowed,
                     const char* rule);

inline void check_label_smoothing(const char* operation, double value) {
  check_parameter(operation, "label_smoothing", value, value >= 0 && value <= 1, "in [0, 1]");
}

// Whether a target has a gradient that is wanted.
bool wants_gradient(const Tensor& target, bool target_gradient);

// grad_output, checked, as kernels that compute `dtype` read it: dense and not a half.
Tensor loss_gradient_input(const char* operation, const Tensor& grad_output, const Shape& shape,
                           Reduction reduction, DType dtype);

}  // namespace extensor::ops
