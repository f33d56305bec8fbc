// Shared by the convolutions of images, signals and volumes: options of layers, inputs without a
// batch.
#pragma once

#include "core/check.h"
#include "extensor/convolution.h"
#include "ops/op.h"

namespace extensor::ops {

// Throws unless the options that describe a layer agree with the tensors of the call.
template <class Given>
void check_layer_options(const char* operation, const Given& given, const Tensor& weight,
                         const Tensor& bias) {
  if (!given.bias && bias.defined()) {
    throw ValueError(detail::message(operation, ": options.bias is false and a bias of shape ",
                                     bias.shape(), " is given (allowed: one of the two)"));
  }
  if (given.dtype && weight.defined() && weight.dtype() != *given.dtype) {
    throw DTypeError(detail::message(operation, ": options.dtype is ", *given.dtype,
                                     " and weight is ", weight.dtype(),
                                     " (allowed: the dtype of the weight, or none)"));
  }
}

// Whether x is one image, signal or volume instead of a batch of them.
inline bool is_single(const Tensor& x, const Tensor& weight) {
  return x.defined() && weight.defined() && weight.ndim() >= 3 && x.ndim() == weight.ndim() - 1;
}

template <class Attributes, class Given>
Tensor convolved(const OpOf<Attributes, Tensor, 3>& op, const Attributes& attributes,
                 const Tensor& x, const Tensor& weight, const Tensor& bias, const Given& given) {
  check_layer_options(op.name, given, weight, bias);
  if (!is_single(x, weight)) return dispatch(op, attributes, x, weight, bias);
  return dispatch(op, attributes, x.unsqueeze(0), weight, bias).squeeze(0);
}

// The gradients of a call whose x has no batch, from those of a batch of one.
inline ConvolutionGradients without_batch(ConvolutionGradients gradients) {
  if (gradients.x.defined()) gradients.x = gradients.x.squeeze(0);
  return gradients;
}

}  // namespace extensor::ops
