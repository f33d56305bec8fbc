#include "ops/normalization_support.h"

#include <cmath>

#include "core/check.h"
#include "extensor/broadcasting.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/reduction.h"
#include "ops/launch.h"

namespace extensor::ops::normalization {

using detail::message;

void check_eps(const char* operation, double eps) {
  if (eps >= 0 && std::isfinite(eps)) return;
  throw ValueError(message(operation, ": eps is ", eps, ", must be finite and at least 0"));
}

void check_parameter(const char* operation, const char* name, const Tensor& parameter,
                     const Shape& shape, const Tensor& x) {
  if (!parameter.defined()) return;
  if (!is_floating_point(parameter.dtype())) {
    throw DTypeError(
        message(operation, ": ", name, " is ", parameter.dtype(), ", must be a float dtype"));
  }
  if (!(parameter.shape() == shape)) {
    throw ShapeError(message(operation, ": ", name, " is ", parameter.shape(), ", must be ", shape,
                             " for x ", x.shape()));
  }
  const Source operands[] = {x, parameter};
  common_device(operation, operands);
}

void check_channels(const char* operation, const Tensor& x) {
  if (x.ndim() >= 2) return;
  throw ShapeError(message(operation, ": x is ", x.shape(), ", must be [N, C, ...]"));
}

std::int64_t elements_behind(const Tensor& x, std::int64_t axis) {
  std::int64_t count = 1;
  for (std::int64_t d = axis; d < x.ndim(); ++d) count *= x.size(d);
  return count;
}

void check_double_backward(const char* operation, const NormGradients& given,
                           const Tensor& grad_output, const Tensor& x, const Shape& parameters) {
  check_float(operation, "x", x);
  check_grad_output(operation, grad_output, x.shape());
  check_parameter(operation, "the gradient of the gradient of x", given.x, x.shape(), x);
  for (const Tensor& gradient : {given.weight, given.bias}) {
    check_parameter(operation, "the gradient of a parameter's gradient", gradient, parameters, x);
  }
}

NormOperands::NormOperands(const NormView& v, const NormGradients& given, const Tensor& grad_output,
                           const Tensor& x_, const Tensor& weight) {
  const DType wide = compute_dtype(promote_types(grad_output.dtype(), x_.dtype()));
  const auto as = [&](const Tensor& tensor, const Shape& shape, double missing) {
    return tensor.defined() ? tensor.to(wide).reshape(shape) : full({}, missing, wide);
  };
  x = as(x_, v.view, 0);
  g = as(grad_output, v.view, 0);
  w = as(weight, v.parameters, 1);
  of_x = given.x.defined() ? as(given.x, v.view, 0) : zeros_like(x);
  of_weight = as(given.weight, v.parameters, 0);
  of_bias = as(given.bias, v.parameters, 0);
}

NormDoubleGradients restored(const NormView& v, const Tensor& of_output, const Tensor& of_x,
                             const Tensor& of_weight, const Tensor& grad_output, const Tensor& x,
                             const Tensor& weight) {
  NormDoubleGradients result{of_output.reshape(x.shape()).to(grad_output.dtype()),
                             of_x.reshape(x.shape()).to(x.dtype()),
                             {}};
  if (weight.defined()) {
    result.weight =
        reduce_broadcast_dims(of_weight, v.parameters).reshape(weight.shape()).to(weight.dtype());
  }
  return result;
}

// With a = g · weight, u = grad_grad_x and P(v) the gradient of Σ v · x̂ with respect to x, the
// backward's results weigh Σ a · P(u) + Σ grad_grad_weight · g · x̂ + Σ grad_grad_bias · g.
NormDoubleGradients double_backward(const NormView& v, const NormGradients& given,
                                    const Tensor& grad_output, const Tensor& x,
                                    const Tensor& weight, double eps) {
  const NormOperands o(v, given, grad_output, x, weight);
  const auto mean_of = [&](const Tensor& values) { return mean(values, v.axes, true); };
  const Tensor centre = v.centred ? o.x - mean_of(o.x) : o.x;
  const Tensor scale = rsqrt(mean_of(square(centre)) + eps), standard = centre * scale;
  const auto projected = [&](const Tensor& values) {
    const Tensor rest = values - standard * mean_of(values * standard);
    return scale * (v.centred ? rest - mean_of(values) : rest);
  };
  const Tensor a = o.g * o.w, projected_u = projected(o.of_x);
  const Tensor through_scale = standard * mean_of(a * projected_u);
  const Tensor through_means =
      mean_of(a * standard) * projected_u + mean_of(o.of_x * standard) * projected(a);
  return restored(v, projected_u * o.w + standard * o.of_weight + o.of_bias,
                  projected(o.g * o.of_weight) - scale * (through_scale + through_means),
                  o.g * projected_u, grad_output, x, weight);
}

}  // namespace extensor::ops::normalization
