// The softmax family along one axis, stable for every finite input, and its gradients.
#pragma once

#include <utility>

#include "extensor/tensor.h"

namespace extensor {

Tensor softmax(const Tensor& x, StrictInt axis = -1);
Tensor softmax_backward(const Tensor& grad_output, const Tensor& y, StrictInt axis = -1);
// Each double backward: the gradients of grad_output and of the forward's input.
std::pair<Tensor, Tensor> softmax_double_backward(const Tensor& grad_grad_x,
                                                  const Tensor& grad_output, const Tensor& y,
                                                  StrictInt axis = -1);

Tensor log_softmax(const Tensor& x, StrictInt axis = -1);
Tensor log_softmax_backward(const Tensor& grad_output, const Tensor& y, StrictInt axis = -1);
std::pair<Tensor, Tensor> log_softmax_double_backward(const Tensor& grad_grad_x,
                                                      const Tensor& grad_output, const Tensor& y,
                                                      StrictInt axis = -1);

// log Σ exp(x); −∞ for nothing and for a row of −∞.
Tensor logsumexp(const Tensor& x, const Axes& axes = {}, StrictBool keepdims = false);
Tensor logsumexp_backward(const Tensor& grad_output, const Tensor& x, const Axes& axes = {});
std::pair<Tensor, Tensor> logsumexp_double_backward(const Tensor& grad_grad_x,
                                                    const Tensor& grad_output, const Tensor& x,
                                                    const Axes& axes = {});

}  // namespace extensor
