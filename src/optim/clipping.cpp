#include "extensor/optim/clipping.h"

#include "core/graph.h"
#include "extensor/optimizer_steps.h"
#include "ops/optimizer_rule.h"
#include "optim/sharding.h"

namespace extensor::optim {

namespace {

std::vector<Tensor> gradients_of(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> grads;
  for (const Tensor& parameter : parameters) {
    if (Tensor grad = parameter.grad(); grad.defined()) grads.push_back(std::move(grad));
  }
  return grads;
}

}  // namespace

GradientNorm clip_grad_norm(const std::vector<Tensor>& parameters, StrictDouble max_norm,
                            StrictDouble norm_type, StrictBool error_if_nonfinite) {
  const detail::RecordingScope off(false);
  std::vector<Tensor> grads = gradients_of(parameters);
  const auto norm = [&] { return joint_gradient_norm("clip_grad_norm", parameters, norm_type); };
  return ops::clip_grad_norm(grads, max_norm, norm_type, error_if_nonfinite, norm);
}

void clip_grad_value(const std::vector<Tensor>& parameters, StrictDouble clip_value) {
  const detail::RecordingScope off(false);
  std::vector<Tensor> grads = gradients_of(parameters);
  extensor::clip_grad_value(grads, clip_value);
}

}  // namespace extensor::optim
