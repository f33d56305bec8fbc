// Derivatives of functions: vjp, jvp of one tensor, Jacobians and Hessians.
#include "core/check.h"
#include "extensor/autograd.h"
#include "extensor/creation.h"
#include "extensor/manipulation.h"

namespace extensor {

namespace {

using detail::message;

TensorFunction lifted(const UnaryFunction& function) {
  return
      [&function](const std::vector<Tensor>& in) { return std::vector<Tensor>{function(in[0])}; };
}

// A leaf of x's values. With `create_graph` it is x itself if that is tracked, so that the result
// is a function of it.
Tensor point_at(const char* operation, const Tensor& x, bool create_graph) {
  if (!is_floating_point(x.dtype())) {
    throw DTypeError(message(operation, ": x is ", x.dtype(), ", must be a float dtype"));
  }
  return create_graph && x.requires_grad() ? x : x.detach().requires_grad_();
}

Shape joined(const Shape& a, const Shape& b) {
  Shape shape = a;
  for (std::int64_t size : b) shape.push_back(size);
  return shape;
}

// The Jacobian of y, which was computed from x, row by row.
Tensor rows_of(const Tensor& y, const Tensor& x, bool create_graph) {
  const Shape shape = joined(y.shape(), x.shape());
  std::vector<Tensor> rows;
  const Tensor elements = y.requires_grad() ? y.reshape({y.numel()}) : Tensor();
  for (std::int64_t i = 0; elements.defined() && i < y.numel(); ++i) {
    const Tensor row =
        grad(elements[i], {x},
             {.create_graph = create_graph, .retain_graph = true, .allow_unused = true})[0];
    rows.push_back(row.defined() ? row : zeros_like(x));
  }
  if (rows.empty()) return zeros(shape, {x.dtype(), x.device()});
  return stack(rows).reshape(shape);
}

void check_number(const char* operation, const Tensor& y) {
  if (y.numel() == 1) return;
  throw ShapeError(message(operation, ": the function returns ", y.shape(),
                           " (allowed: a tensor of one element)"));
}

// The gradient of a function of one number, recorded.
Tensor gradient_of(const Tensor& y, const Tensor& x) {
  if (!y.requires_grad()) return zeros_like(x);
  const Tensor found = grad(y, {x}, {.create_graph = true, .allow_unused = true})[0];
  return found.defined() ? found : zeros_like(x);
}

}  // namespace

PulledBack vjp(const TensorFunction& function, const std::vector<Tensor>& inputs,
               const std::vector<Tensor>& gradients) {
  const EnableGrad recording;
  std::vector<Tensor> points;
  points.reserve(inputs.size());
  for (const Tensor& input : inputs) points.push_back(point_at("vjp", input, false));
  const std::vector<Tensor> outputs = function(points);
  if (!gradients.empty() && gradients.size() != outputs.size()) {
    throw ValueError(message("vjp: ", gradients.size(), " gradients for ", outputs.size(),
                             " outputs (allowed: none, or one for each)"));
  }
  PulledBack result;
  std::vector<Tensor> made, given;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    result.outputs.push_back(outputs[k].detach());
    const Tensor gradient = gradients.empty() ? Tensor() : gradients[k];
    if (gradient.defined() && !(gradient.shape() == outputs[k].shape())) {
      throw ShapeError(message("vjp: gradient ", k, " is ", gradient.shape(), ", the output is ",
                               outputs[k].shape()));
    }
    if (!outputs[k].requires_grad()) continue;
    made.push_back(outputs[k]);
    given.push_back(gradient);
  }
  result.gradients = made.empty()
                         ? std::vector<Tensor>(points.size())
                         : grad(made, points, {.allow_unused = true, .grad_outputs = given});
  for (std::size_t k = 0; k < points.size(); ++k) {
    if (!result.gradients[k].defined()) result.gradients[k] = zeros_like(points[k].detach());
  }
  return result;
}

std::pair<Tensor, Tensor> jvp(const UnaryFunction& function, const Tensor& x,
                              const Tensor& tangent) {
  const DirectionalDerivative found = jvp(lifted(function), {x}, {tangent});
  return {found.outputs[0], found.tangents[0]};
}

std::pair<Tensor, Tensor> vjp(const UnaryFunction& function, const Tensor& x,
                              const Tensor& gradient) {
  const PulledBack found = vjp(lifted(function), {x}, {gradient});
  return {found.outputs[0], found.gradients[0]};
}

Tensor jacobian(const UnaryFunction& function, const Tensor& x, StrictBool create_graph) {
  const EnableGrad recording;
  const Tensor point = point_at("jacobian", x, create_graph);
  const Tensor rows = rows_of(function(point), point, create_graph);
  return create_graph ? rows : rows.detach();
}

Tensor hessian(const UnaryFunction& function, const Tensor& x, StrictBool create_graph) {
  const EnableGrad recording;
  const Tensor point = point_at("hessian", x, create_graph);
  const Tensor y = function(point);
  check_number("hessian", y);
  const Tensor rows = rows_of(gradient_of(y, point), point, create_graph);
  return create_graph ? rows : rows.detach();
}

std::pair<Tensor, Tensor> hvp(const UnaryFunction& function, const Tensor& x,
                              const Tensor& direction) {
  if (!(direction.shape() == x.shape())) {
    throw ShapeError(message("hvp: direction is ", direction.shape(), ", x is ", x.shape()));
  }
  const EnableGrad recording;
  const Tensor point = point_at("hvp", x, false);
  const Tensor y = function(point);
  check_number("hvp", y);
  const Tensor gradient = gradient_of(y, point);
  Tensor product;
  if (gradient.requires_grad()) {
    product = grad(gradient, {point},
                   {.allow_unused = true, .grad_outputs = {direction.to(gradient.dtype())}})[0];
  }
  return {y.detach(), product.defined() ? product : zeros_like(x.detach())};
}

}  // namespace extensor
