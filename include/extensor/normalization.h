// Normalization layers and their explicit gradients.
//
//   Tensor y = extensor::layer_norm(x, {768}, weight, bias);
//   auto [grad_x, grad_weight, grad_bias] =
//       extensor::layer_norm_backward(g, x, {768}, weight, bias);
//
// Results have x's dtype. weight and bias are optional (leave them undefined) and may have any
// float dtype. Halves are computed in float32, and the mean and variance stay accurate under any
// common offset of the elements. A backward takes the forward's arguments and recomputes the
// statistics (x passes through the cache anyway, so nothing has to be saved). It returns a gradient
// for every defined tensor, in its dtype; the sums over rows do not depend on the number of
// threads.
// Errors: ShapeError, DTypeError, DeviceError; ValueError for an eps that is negative or NaN.
#pragma once

#include <optional>
#include <utility>

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

// A gradient is undefined if its parameter was.
struct NormGradients {
  Tensor x, weight, bias;
};

// (x − mean) / √(variance + eps) · weight + bias over the trailing axes, whose sizes are
// `normalized_shape`; weight and bias have that shape.
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                  const Tensor& bias = {}, StrictDouble eps = 1e-5);
NormGradients layer_norm_backward(const Tensor& grad_output, const Tensor& x,
                                  const Shape& normalized_shape, const Tensor& weight = {},
                                  const Tensor& bias = {}, StrictDouble eps = 1e-5);

// x / √(mean(x²) + eps) · weight over the trailing axes. eps defaults to the machine epsilon of x's
// dtype.
Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                std::optional<StrictDouble> eps = {});
// The gradients of x and weight.
std::pair<Tensor, Tensor> rms_norm_backward(const Tensor& grad_output, const Tensor& x,
                                            const Shape& normalized_shape,
                                            const Tensor& weight = {},
                                            std::optional<StrictDouble> eps = {});

// sum = x + residual and output = layer_norm(sum), in one pass over memory. A block of a pre-norm
// transformer needs both: auto [sum, output] = add_layer_norm(x, residual, {768}, weight, bias). x
// and residual have one shape; sum has the dtype of x + residual.
struct AddNormResult {
  Tensor sum, output;
};
AddNormResult add_layer_norm(const Tensor& x, const Tensor& residual, const Shape& normalized_shape,
                             const Tensor& weight = {}, const Tensor& bias = {},
                             StrictDouble eps = 1e-5);
// Takes the gradients of both results, one of which may be undefined, and the sum. The gradient of
// the sum is that of x and that of residual. ValueError if neither gradient is defined.
NormGradients add_layer_norm_backward(const Tensor& grad_sum, const Tensor& grad_output,
                                      const Tensor& sum, const Shape& normalized_shape,
                                      const Tensor& weight = {}, const Tensor& bias = {},
                                      StrictDouble eps = 1e-5);

// sum = x + residual and output = rms_norm(sum), like add_layer_norm.
AddNormResult add_rms_norm(const Tensor& x, const Tensor& residual, const Shape& normalized_shape,
                           const Tensor& weight = {}, std::optional<StrictDouble> eps = {});
// The gradients of the sum and of weight.
std::pair<Tensor, Tensor> add_rms_norm_backward(const Tensor& grad_sum, const Tensor& grad_output,
                                                const Tensor& sum, const Shape& normalized_shape,
                                                const Tensor& weight = {},
                                                std::optional<StrictDouble> eps = {});

// Normalizes x [N, C, …] over each of `groups` groups of channels of each sample, with weight and
// bias [C]. ValueError unless `groups` divides C.
Tensor group_norm(const Tensor& x, StrictInt groups, const Tensor& weight = {},
                  const Tensor& bias = {}, StrictDouble eps = 1e-5);
NormGradients group_norm_backward(const Tensor& grad_output, const Tensor& x, StrictInt groups,
                                  const Tensor& weight = {}, const Tensor& bias = {},
                                  StrictDouble eps = 1e-5);

// Normalizes every channel of every sample of x [N, C, …]. ValueError if a channel has one value.
Tensor instance_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                     StrictDouble eps = 1e-5);
NormGradients instance_norm_backward(const Tensor& grad_output, const Tensor& x,
                                     const Tensor& weight = {}, const Tensor& bias = {},
                                     StrictDouble eps = 1e-5);

// Normalizes every channel of x [N, C] or [N, C, …] over the batch. Training uses the statistics of
// this batch, which then update the running ones in place, running ← (1 − momentum) · running +
// momentum · batch, with the variance that divides by n − 1; otherwise the running ones are used.
// Running statistics [C] are handles on memory and may be undefined together: then the batch's are
// always used. ValueError for one value per channel in training, or a momentum outside [0, 1].
Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight = {}, const Tensor& bias = {}, StrictBool training = false,
                  StrictDouble momentum = 0.1, StrictDouble eps = 1e-5);
// The running statistics matter only outside training, and are not changed.
NormGradients batch_norm_backward(const Tensor& grad_output, const Tensor& x,
                                  const Tensor& running_mean, const Tensor& running_var,
                                  const Tensor& weight = {}, const Tensor& bias = {},
                                  StrictBool training = false, StrictDouble eps = 1e-5);

// max(batch_norm(x) + residual, 0), the end of a residual block: one pass over x and residual after
// the one for the statistics. A residual has x's shape; an undefined one counts as 0. For halves
// the sum is rounded once.
Tensor batch_norm_add_relu(const Tensor& x, const Tensor& residual, const Tensor& running_mean,
                           const Tensor& running_var, const Tensor& weight = {},
                           const Tensor& bias = {}, StrictBool training = false,
                           StrictDouble momentum = 0.1, StrictDouble eps = 1e-5);
// A gradient is undefined if its tensor was.
struct BatchNormAddReluGradients {
  Tensor x, residual, weight, bias;
};
// `result` is the forward's: a gradient passes where it is positive.
BatchNormAddReluGradients batch_norm_add_relu_backward(
    const Tensor& grad_output, const Tensor& x, const Tensor& residual, const Tensor& result,
    const Tensor& running_mean, const Tensor& running_var, const Tensor& weight = {},
    const Tensor& bias = {}, StrictBool training = false, StrictDouble eps = 1e-5);

}  // namespace extensor

EXTENSOR_END_API
