// Reductions and gradient checks shared by all losses.
#pragma once

#include "backend/loss_call.h"
#include "extensor/losses.h"

namespace extensor::ops {

backend::LossReduction loss_reduction(Reduction reduction);

// The shape of a loss whose elementwise values have `shape`.
inline Shape loss_shape(const Shape& shape, Reduction reduction) {
  return reduction == Reduction::none ? shape : Shape{};
}

// The reduced values, and the factor by which the reduction scales a gradient.
Tensor reduced_loss(const Tensor& values, Reduction reduction);
double loss_scale(std::int64_t count, Reduction reduction);

// Throws a ValueError that quotes the rule if a parameter is not allowed.
void check_parameter(const char* operation, const char* name, double value, bool allowed,
                     const char* rule);

inline void check_label_smoothing(const char* operation, double value) {
  check_parameter(operation, "label_smoothing", value, value >= 0 && value <= 1, "in [0, 1]");
}

// Whether the gradient of a target exists and is requested.
bool wants_gradient(const Tensor& target, bool target_gradient);

// Checks grad_output and returns it in the form that kernels computing `dtype` read: dense and not
// a half.
Tensor loss_gradient_input(const char* operation, const Tensor& grad_output, const Shape& shape,
                           Reduction reduction, DType dtype);

}  // namespace extensor::ops
