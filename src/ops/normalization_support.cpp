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

NormGradients as_gradients(const Results& found, const Tensor& weight, const Tensor& bias) {
  return {found[0], weight.defined() ? found[1].to(weight.dtype()) : Tensor(),
          bias.defined() ? found[2].to(bias.dtype()) : Tensor()};
}

NormOperands::NormOperands(const NormView& v, const GradientCall& call, const Tensor& grad_output) {
  const DType wide = compute_dtype(promote_types(grad_output.dtype(), call.input(1).dtype()));
  const auto as = [&](const Tensor& tensor, const Shape& shape, double missing) {
    return tensor.defined() ? tensor.to(wide).reshape(shape)
                            : full({}, missing, {wide, cpu_device});
  };
  g = as(grad_output, v.view, 0);
  x = as(call.input(1), v.view, 0);
  w = as(call.input(2), v.parameters, 1);
  of_x = call.grad(0).defined() ? as(call.grad(0), v.view, 0) : zeros_like(x);
  of_weight = as(call.grad(1), v.parameters, 0);
  of_bias = as(call.grad(2), v.parameters, 0);
}

Gradients restored(const NormView& v, const GradientCall& call, const Tensor& of_output,
                   const Tensor& of_x, const Tensor& of_weight) {
  const Shape& shape = call.input(1).shape();
  Gradients gradients{of_output.reshape(shape), of_x.reshape(shape), {}};
  if (call.needs(2)) {
    gradients[2] = reduce_broadcast_dims(of_weight, v.parameters).reshape(call.input(2).shape());
  }
  return gradients;
}

// With a = g · weight, the gradient u of grad_x, and P(v), the gradient of Σ v · x̂ with respect to
// x, the differentiated sum is Σ a · P(u) + Σ (gradient of grad_weight) · g · x̂ + Σ (gradient of
// grad_bias) · g.
Gradients backward_gradient(const NormView& v, const GradientCall& call, const NormOperands& o,
                            double eps) {
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
  return restored(v, call, projected_u * o.w + standard * o.of_weight + o.of_bias,
                  projected(o.g * o.of_weight) - scale * (through_scale + through_means),
                  o.g * projected_u);
}

}  // namespace extensor::ops::normalization
