// Shared by the normalizations: argument checks, and the gradients of their backward ops composed
// of public ops. Every backward op has the inputs grad_output, x and weight, and returns the
// gradients of x, weight and bias.
#pragma once

#include "extensor/normalization.h"
#include "ops/op.h"

namespace extensor::ops::normalization {

// If a channel has fewer adjacent elements than this, expanding parameters per element is faster.
inline constexpr std::int64_t short_run = 16;

// The elements of a dense tensor, or null if it is undefined.
inline const std::byte* data_of(const Tensor& x) {
  return x.defined() ? detail::dense_data(x) : nullptr;
}

inline Tensor floats(const Tensor& x) {
  return is_floating_point(x.dtype()) ? x : x.to(default_float);
}

void check_eps(const char* operation, double eps);
// Checks a weight, bias or statistic, which may be undefined.
void check_parameter(const char* operation, const char* name, const Tensor& parameter,
                     const Shape& shape, const Tensor& x);
void check_channels(const char* operation, const Tensor& x);
// The number of elements in the axes from `axis` on.
std::int64_t elements_behind(const Tensor& x, std::int64_t axis);

// Converts the results of a backward op to the dtypes of the parameters.
NormGradients as_gradients(const Results& found, const Tensor& weight, const Tensor& bias);

// The view of x that the gradient of a backward op uses: `view`, the axes that are normalized over,
// and parameters that broadcast against it.
struct NormView {
  Shape view;
  Axes axes;
  Shape parameters;
  bool centred = true;
};

// The operands of that gradient, widened and in the shapes of a NormView. Missing ones are 0, or 1
// for the weight.
struct NormOperands {
  Tensor x, g, w;                   // x, grad_output, weight
  Tensor of_x, of_weight, of_bias;  // gradients of their gradients

  NormOperands(const NormView& v, const GradientCall& call, const Tensor& grad_output);
};

// Converts gradients from the shapes of a NormView to those of the backward op's inputs; the
// gradient of the weight is summed here.
Gradients restored(const NormView& v, const GradientCall& call, const Tensor& of_output,
                   const Tensor& of_x, const Tensor& of_weight);

// The gradient of the backward op of a norm that uses the statistics of x itself.
Gradients backward_gradient(const NormView& v, const GradientCall& call, const NormOperands& o,
                            double eps);

}  // namespace extensor::ops::normalization
