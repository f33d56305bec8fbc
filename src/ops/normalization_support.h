// What the normalisations share: the checks of their arguments, and their second derivatives as
// compositions of public ops.
#pragma once

#include "extensor/normalization.h"

namespace extensor::ops::normalization {

void check_eps(const char* operation, double eps);
// A weight, bias or statistic, which need not be there.
void check_parameter(const char* operation, const char* name, const Tensor& parameter,
                     const Shape& shape, const Tensor& x);
void check_channels(const char* operation, const Tensor& x);
// How many elements the axes from `axis` on have.
std::int64_t elements_behind(const Tensor& x, std::int64_t axis);

// x and the gradients a double backward is given; parameters have one shape.
void check_double_backward(const char* operation, const NormGradients& given,
                           const Tensor& grad_output, const Tensor& x, const Shape& parameters);

// How a double backward sees x: the axes of `view` that are normalised over, and parameters that
// broadcast against it.
struct NormView {
  Shape view;
  Axes axes;
  Shape parameters;
  bool centred = true;
};

// What a double backward computes with: everything wide and in a NormView's shapes, 0 or a weight
// of 1 where it was not given.
struct NormOperands {
  Tensor x, g, w;                   // x, grad_output, weight
  Tensor of_x, of_weight, of_bias;  // the gradients of their gradients

  NormOperands(const NormView& v, const NormGradients& given, const Tensor& grad_output,
               const Tensor& x, const Tensor& weight);
};

// The gradients of a double backward from those in a NormView's shapes; that of the weight is not
// summed yet.
NormDoubleGradients restored(const NormView& v, const Tensor& of_output, const Tensor& of_x,
                             const Tensor& of_weight, const Tensor& grad_output, const Tensor& x,
                             const Tensor& weight);

// Of a norm by the statistics of x itself, everything checked.
NormDoubleGradients double_backward(const NormView& v, const NormGradients& given,
                                    const Tensor& grad_output, const Tensor& x,
                                    const Tensor& weight, double eps);

}  // namespace extensor::ops::normalization
