// The softmax family along one axis, stable for every finite input, and its gradients.
#pragma once

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

Tensor softmax(const Tensor& x, StrictInt axis = -1);
// The same on x converted to a float dtype, which the result has. DTypeError for other dtypes.
Tensor softmax(const Tensor& x, StrictInt axis, DType dtype);
Tensor softmax_backward(const Tensor& grad_output, const Tensor& y, StrictInt axis = -1);

Tensor log_softmax(const Tensor& x, StrictInt axis = -1);
Tensor log_softmax(const Tensor& x, StrictInt axis, DType dtype);
Tensor log_softmax_backward(const Tensor& grad_output, const Tensor& y, StrictInt axis = -1);

// log Σ exp(x); −∞ for no elements and for a row of −∞.
Tensor logsumexp(const Tensor& x, const Axes& axes = {}, StrictBool keepdims = false);
Tensor logsumexp_backward(const Tensor& grad_output, const Tensor& x, const Axes& axes = {});

}  // namespace extensor

EXTENSOR_END_API
