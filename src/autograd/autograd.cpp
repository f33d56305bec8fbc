#include "extensor/autograd.h"

#include "autograd/walk.h"
#include "core/check.h"
#include "core/make_tensor.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/reduction.h"

namespace extensor {

using detail::context;
using detail::LeafNode;
using detail::message;
using detail::Node;

// ---- modes

bool is_grad_enabled() { return detail::recording_enabled(); }

GradMode::GradMode(bool enabled) : before_(std::exchange(context.recording, enabled)) {}
GradMode::~GradMode() { context.recording = before_; }

AnomalyMode::AnomalyMode(bool enabled)
    : before_(std::exchange(context.result_check, enabled ? autograd::refuse_nan : nullptr) !=
              nullptr) {}
AnomalyMode::~AnomalyMode() { context.result_check = before_ ? autograd::refuse_nan : nullptr; }

GradientEps::GradientEps(double eps) : before_(context.gradient_eps) {
  if (!(eps >= 0)) throw ValueError(message("GradientEps: eps is ", eps, ", must be 0 or more"));
  context.gradient_eps = eps;
}
GradientEps::~GradientEps() { context.gradient_eps = before_; }

// ---- gradient state of a tensor

Tensor& Tensor::requires_grad_(StrictBool required) & {
  detail::TensorImpl& tensor = impl();
  if (required) {
    if (!is_differentiable(tensor.dtype)) {
      throw DTypeError(message("requires_grad_: the tensor is ", tensor.dtype,
                               " (allowed: a float or complex dtype; others have no gradient)"));
    }
    if (detail::node_of(tensor) != nullptr) return *this;
    detail::forget_base(tensor);
    tensor.node = detail::NodePointer(new LeafNode);
    detail::count_change(tensor);
  } else if (detail::node_of(tensor) != nullptr) {
    if (!tensor.node->is_leaf()) {
      throw ValueError(message("requires_grad_: a tensor that ", tensor.node->name(),
                               " computed cannot stop requiring a gradient; detach() gives one "
                               "that does not"));
    }
    tensor.node = {};
    detail::count_change(tensor);
  }
  return *this;
}

bool Tensor::is_leaf() const {
  const Node* node = detail::node_of(impl());
  return node == nullptr || node->is_leaf();
}

Tensor Tensor::grad() const {
  Node* node = detail::node_of(impl());
  if (node == nullptr) return {};
  if (node->is_leaf()) return static_cast<LeafNode*>(node)->grad;
  if (node->extras_or_null() == nullptr) return {};
  for (const auto& [output, kept] : node->extras().retained) {
    if (output == impl().output) return kept;
  }
  return {};
}

void Tensor::set_grad(const Tensor& grad) {
  Node* node = detail::node_of(impl());
  if (node == nullptr || !node->is_leaf()) {
    throw ValueError(message("set_grad: the tensor of shape ", shape(),
                             " is not a leaf that requires a gradient"));
  }
  if (grad.defined()) {
    if (!(grad.shape() == shape())) {
      throw ShapeError(message("set_grad: grad is ", grad.shape(), ", the tensor is ", shape()));
    }
    if (grad.dtype() != dtype()) {
      throw DTypeError(message("set_grad: grad is ", grad.dtype(), ", the tensor is ", dtype()));
    }
  }
  static_cast<LeafNode*>(node)->grad = grad;
}

Tensor Tensor::detach() const {
  const detail::TensorImpl& tensor = impl();
  return detail::make_view(*this, tensor.data, tensor.shape, tensor.strides);
}

void Tensor::retain_grad() {
  const detail::TensorImpl& tensor = impl();
  if (detail::node_of(tensor) == nullptr) {
    throw ValueError(
        message("retain_grad: the tensor of shape ", tensor.shape, " requires no gradient"));
  }
  if (tensor.node->is_leaf()) return;
  auto& retained = tensor.node->extras().retained;
  for (const auto& [output, kept] : retained) {
    if (output == tensor.output) return;
  }
  retained.emplace_back(tensor.output, Tensor());
}

std::size_t Tensor::register_hook(std::function<Tensor(const Tensor&)> hook) {
  const detail::TensorImpl& tensor = impl();
  if (detail::node_of(tensor) == nullptr) {
    throw ValueError(
        message("register_hook: the tensor of shape ", tensor.shape, " requires no gradient"));
  }
  if (!hook) throw ValueError("register_hook: the function is empty");
  detail::NodeExtras& extras = tensor.node->extras();
  extras.hooks.push_back({tensor.output, extras.next_id, std::move(hook)});
  return extras.next_id++;
}

void Tensor::remove_hook(std::size_t id) {
  Node* node = detail::node_of(impl());
  if (node == nullptr || node->extras_or_null() == nullptr) return;
  std::erase_if(node->extras().hooks, [id](const auto& hook) { return hook.id == id; });
}

// ---- backward

void Tensor::run_backward(const Tensor* gradient, const BackwardOptions& options) const {
  const Tensor outputs[] = {*this};
  const Tensor given[] = {gradient == nullptr ? Tensor() : *gradient};
  const auto gradients = autograd::first_gradients("backward", outputs, given);
  autograd::walk_back("backward", outputs, gradients, nullptr,
                      {options.retain_graph || options.create_graph, options.create_graph});
}

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options) {
  const auto gradients = autograd::first_gradients("grad", outputs, options.grad_outputs);
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (inputs[k].requires_grad()) continue;
    throw ValueError(message("grad: input ", k, ", of shape ", inputs[k].shape(),
                             ", requires no gradient (requires_grad_() asks for one)"));
  }
  auto results =
      autograd::walk_back("grad", outputs, gradients, &inputs,
                          {options.retain_graph || options.create_graph, options.create_graph});
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (results[k].defined() || options.allow_unused) continue;
    throw ValueError(message("grad: no output depends on input ", k, ", of shape ",
                             inputs[k].shape(), " (allow_unused leaves its gradient undefined)"));
  }
  return results;
}

// ---- functional transforms

DirectionalDerivative jvp(const TensorFunction& function, const std::vector<Tensor>& inputs,
                          const std::vector<Tensor>& tangents) {
  if (inputs.size() != tangents.size()) {
    throw ValueError(message("jvp: ", tangents.size(), " tangents for ", inputs.size(), " inputs"));
  }
  const EnableGrad recording;
  std::vector<Tensor> points;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (!(inputs[k].shape() == tangents[k].shape())) {
      throw ShapeError(message("jvp: tangent ", k, " is ", tangents[k].shape(), ", the input is ",
                               inputs[k].shape()));
    }
    points.push_back(inputs[k].detach().requires_grad_());
  }
  const std::vector<Tensor> outputs = function(points);
  // The gradient Jᵀ·v is linear in v, so its own gradient with respect to v, for the tangents t, is
  // J·t.
  std::vector<Tensor> made, directions;
  for (const Tensor& output : outputs) {
    if (!output.requires_grad()) continue;
    made.push_back(output);
    directions.push_back(zeros_like(output).requires_grad_());
  }
  DirectionalDerivative result;
  std::vector<Tensor> forward(made.size());
  if (!made.empty()) {
    const std::vector<Tensor> gradients = grad(
        made, points, {.create_graph = true, .allow_unused = true, .grad_outputs = directions});
    std::vector<Tensor> reached, along;
    for (std::size_t k = 0; k < gradients.size(); ++k) {
      if (!gradients[k].defined() || !gradients[k].requires_grad()) continue;
      reached.push_back(gradients[k]);
      along.push_back(tangents[k].to(gradients[k].dtype()));
    }
    if (!reached.empty()) {
      forward = grad(reached, directions, {.allow_unused = true, .grad_outputs = along});
    }
  }
  std::size_t next = 0;
  for (const Tensor& output : outputs) {
    result.outputs.push_back(output.detach());
    const bool moves = output.requires_grad() && forward[next++].defined();
    result.tangents.push_back(moves ? forward[next - 1] : zeros_like(output));
  }
  return result;
}

}  // namespace extensor
