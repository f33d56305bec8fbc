// Shared by the normalizations: checks of their arguments, and the gradients of their backward ops
// as compositions of public ops. Every backward op has the inputs grad_output, x and weight, and
// the gradients of x, weight and bias as results.
#pragma once

#include "extensor/normalization.h"
#include "ops/op.h"

namespace extensor::ops::normalization {

// Below this many elements of a channel side by side, parameters element by element are quicker.
inline constexpr std::int64_t short_run = 16;

// The elements of a dense tensor, or null.
inline const std::byte* data_of(const Tensor& x) {
  return x.defined() ? detail::dense_data(x) : nullptr;
}

inline Tensor floats(const Tensor& x) {
  return is_floating_point(x.dtype()) ? x : x.to(default_float);
}

void check_eps(const char* operation, double eps);
// A weight, bias or statistic, which may be undefined.
void check_parameter(const char* operation, const char* name, const Tensor& parameter,
                     const Shape& shape, const Tensor& x);
void check_channels(const char* operation, const Tensor& x);
// How many elements the axes from `axis` on have.
std::int64_t elements_behind(const Tensor& x, std::int64_t axis);

// The results of a backward op in the dtypes of the parameters.
NormGradients as_gradients(const Results& found, const Tensor& weight, const Tensor& bias);

// How the gradient of a backward op sees x: the axes of `view` that are normalized over, and
// parameters that broadcast against it.
struct NormView {
  Shape view;
  Axes axes;
  Shape parameters;
  bool centred = true;
};

// The operands of that gradient: everything wide and in a NormView's shapes, 0 or a weight of 1
// where it was not given.
struct NormOperands {
  Tensor x, g, w;                   // x, grad_output, weight
  Tensor of_x, of_weight, of_bias;  // the gradients of their gradients

  NormOperands(const NormView& v, const GradientCall& call, const Tensor& grad_output);
};

// The gradients of a backward op's inputs from those in a NormView's shapes; that of the weight is
// not summed yet.
Gradients restored(const NormView& v, const GradientCall& call, const Tensor& of_output,
                   const Tensor& of_x, const Tensor& of_weight);

// The gradient of the backward op of a norm by the statistics of x itself.
Gradients backward_gradient(const NormView& v, const GradientCall& call, const NormOperands& o,
                            double eps);

}  // namespace extensor::ops::normalization
