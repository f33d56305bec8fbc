// The fully connected layer's kernel, gated linear units, and their gradients.
#pragma once

#include "extensor/activation.h"
#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

// activation(x · weightᵀ + bias): x [..., in], weight [out, in], bias [out] or none → [..., out].
// Bias and activation need no separate pass over memory. Floats; dtypes promote.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              Activation activation = Activation::none);

struct LinearGradients {
  Tensor x, weight, bias;  // bias: undefined if there is none
};
// For a call without an activation, or given the gradient before the activation. The gradient of an
// activation comes from its backward, which takes the result for relu, sigmoid and tanh, and the
// input for gelu, silu and gelu_tanh:
//   z = linear(x, w, b); y = gelu(z);    linear_backward(gelu_backward(g, z), x, w)
//   y = linear(x, w, b, Activation::relu);   linear_backward(relu_backward(g, y), x, w)
LinearGradients linear_backward(const Tensor& grad_output, const Tensor& x, const Tensor& weight,
                                StrictBool has_bias = true);
// For any activation. Recomputes the activation's input: slower by one forward, but only the
// arguments have to be kept.
LinearGradients linear_backward(const Tensor& grad_output, const Tensor& x, const Tensor& weight,
                                const Tensor& bias, Activation activation);

// The first half of x along `axis` times the sigmoid of the second. ShapeError for an odd length.
Tensor glu(const Tensor& x, StrictInt axis = -1);
Tensor glu_backward(const Tensor& grad_output, const Tensor& x, StrictInt axis = -1);

}  // namespace extensor

EXTENSOR_END_API
