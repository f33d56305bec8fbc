#include "extensor/softmax.h"

#include <limits>

#include "backend/backend.h"
#include "core/check.h"
#include "core/graph.h"
#include "core/make_tensor.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/matrix.h"
#include "extensor/reduction.h"
#include "ops/launch.h"
#include "ops/reduced_shape.h"

namespace extensor {

namespace {

using backend::RowCall;
using backend::RowOp;
using ops::check_float;
using ops::ReducedAxes;

// Views dense operands as [outer, length, inner] around one axis.
RowCall row_call(RowOp op, const Tensor& x, std::int64_t axis) {
  RowCall call{};
  call.op = op;
  call.dtype = x.dtype();
  call.outer = call.inner = 1;
  for (std::int64_t d = 0; d < axis; ++d) call.outer *= x.shape()[static_cast<std::size_t>(d)];
  for (std::int64_t d = axis + 1; d < x.ndim(); ++d) {
    call.inner *= x.shape()[static_cast<std::size_t>(d)];
  }
  call.length = x.shape()[static_cast<std::size_t>(axis)];
  call.x = x.impl().data;
  return call;
}

// A 0-d tensor is a row of one element.
std::int64_t row_axis(const char* operation, const Tensor& x, std::int64_t axis) {
  return detail::normalize_axis(operation, axis, x.ndim() == 0 ? 1 : x.ndim());
}

Tensor widened(const Tensor& x) { return x.to(ops::compute_dtype(x.dtype())); }

void check_double_backward(const char* operation, const Tensor& grad_grad_x,
                           const Tensor& grad_output, const Tensor& y) {
  check_float(operation, "y", y);
  ops::check_grad_output(operation, grad_output, y.shape());
  ops::check_gradient(operation, "grad_grad_x", grad_grad_x, y.shape());
}

// Σ over the row, kept; a 0-d tensor is a row of one element.
Tensor row_sum(const Tensor& x, std::int64_t axis) {
  return x.ndim() == 0 ? x : sum(x, axis, true);
}

Tensor as_rows(const Tensor& x) { return (x.ndim() == 0 ? x.reshape({1}) : x).contiguous(); }

Tensor forward(RowOp op, const char* operation, const Tensor& x, std::int64_t axis) {
  const std::int64_t at = row_axis(operation, x, axis);
  const Tensor dense = as_rows(is_floating_point(x.dtype()) ? x : x.to(default_float));
  Tensor result = detail::make_empty(operation, x.shape(), dense.dtype(), x.device());
  RowCall call = row_call(op, dense, at);
  call.out = result.impl().data;
  backend::backend_for(x.device()).rows(call);
  return result;
}

Tensor backward(RowOp op, const char* operation, const Tensor& grad_output, const Tensor& y,
                std::int64_t axis) {
  check_float(operation, "y", y);
  const std::int64_t at = row_axis(operation, y, axis);
  ops::check_grad_output(operation, grad_output, y.shape());
  const ops::Source operands[] = {grad_output, y};
  ops::common_device(operation, operands);
  const DType wide = promote_types(grad_output.dtype(), y.dtype());
  const Tensor g = as_rows(grad_output.to(wide)), dense = as_rows(y.to(wide));
  Tensor result = detail::make_empty(operation, y.shape(), wide, y.device());
  RowCall call = row_call(op, g, at);
  call.y = dense.impl().data;
  call.out = result.impl().data;
  backend::backend_for(y.device()).rows(call);
  return result.to(y.dtype());
}

}  // namespace

Tensor softmax(const Tensor& x, StrictInt axis) {
  if (detail::records(x)) {
    return detail::recorded_by_result(
        "softmax", [&] { return softmax(x, axis); },
        [axis](const Tensor& g, const Tensor& y) { return softmax_backward(g, y, axis); }, x);
  }
  return forward(RowOp::softmax, "softmax", x, axis);
}

namespace {

// grad_x = y·(g − Σ g·y), whose Jacobian is symmetric in g; with y an input of its own, dy = v·g −
// v Σ g·y − g Σ v·y. All widened.
Tensor softmax_gradient_of_y(const Tensor& v, const Tensor& g, const Tensor& y, std::int64_t axis) {
  return v * (g - row_sum(g * y, axis)) - g * row_sum(v * y, axis);
}

}  // namespace

Tensor softmax_backward(const Tensor& grad_output, const Tensor& y, StrictInt axis) {
  if (detail::records(grad_output, y)) {
    return detail::recorded(
        "softmax_backward", [&] { return softmax_backward(grad_output, y, axis); },
        [axis](const Tensor& v, const Tensor& g, const Tensor& y) -> detail::Gradients {
          const Tensor of_y = softmax_gradient_of_y(widened(v), widened(g), widened(y), axis);
          return {softmax_backward(v, y, axis).to(g.dtype()), of_y.to(y.dtype())};
        },
        grad_output, y);
  }
  return backward(RowOp::softmax_backward, "softmax_backward", grad_output, y, axis);
}

std::pair<Tensor, Tensor> softmax_double_backward(const Tensor& grad_grad_x,
                                                  const Tensor& grad_output, const Tensor& y,
                                                  StrictInt axis) {
  constexpr const char* operation = "softmax_double_backward";
  row_axis(operation, y, axis);
  check_double_backward(operation, grad_grad_x, grad_output, y);
  const Tensor v = widened(grad_grad_x), g = widened(grad_output), p = widened(y);
  const Tensor through_y = softmax_gradient_of_y(v, g, p, axis);
  return {softmax_backward(v, p, axis).to(grad_output.dtype()),
          softmax_backward(through_y, p, axis).to(y.dtype())};
}

Tensor log_softmax(const Tensor& x, StrictInt axis) {
  if (detail::records(x)) {
    return detail::recorded_by_result(
        "log_softmax", [&] { return log_softmax(x, axis); },
        [axis](const Tensor& g, const Tensor& y) { return log_softmax_backward(g, y, axis); }, x);
  }
  return forward(RowOp::log_softmax, "log_softmax", x, axis);
}

Tensor log_softmax_backward(const Tensor& grad_output, const Tensor& y, StrictInt axis) {
  if (detail::records(grad_output, y)) {
    return detail::recorded(
        "log_softmax_backward", [&] { return log_softmax_backward(grad_output, y, axis); },
        [axis](const Tensor& v, const Tensor& g, const Tensor& y) -> detail::Gradients {
          const Tensor wide = widened(v), p = exp(widened(y));
          return {(wide - row_sum(wide * p, axis)).to(g.dtype()),
                  (-(wide * p * row_sum(widened(g), axis))).to(y.dtype())};
        },
        grad_output, y);
  }
  return backward(RowOp::log_softmax_backward, "log_softmax_backward", grad_output, y, axis);
}

// grad_x = g − p Σ g with the probabilities p = exp(y).
std::pair<Tensor, Tensor> log_softmax_double_backward(const Tensor& grad_grad_x,
                                                      const Tensor& grad_output, const Tensor& y,
                                                      StrictInt axis) {
  constexpr const char* operation = "log_softmax_double_backward";
  row_axis(operation, y, axis);
  check_double_backward(operation, grad_grad_x, grad_output, y);
  const Tensor v = widened(grad_grad_x), g = widened(grad_output), p = exp(widened(y));
  return {(v - row_sum(v * p, axis)).to(grad_output.dtype()),
          softmax_backward(-(v * row_sum(g, axis)), p, axis).to(y.dtype())};
}

Tensor logsumexp(const Tensor& x, const Axes& axes, StrictBool keepdims) {
  if (detail::records(x)) {
    return detail::recorded(
        "logsumexp", [&] { return logsumexp(x, axes, keepdims); },
        [axes](const Tensor& g, const Tensor& x) { return logsumexp_backward(g, x, axes); }, x);
  }
  const ReducedAxes reduced("logsumexp", axes, x.ndim());
  const Tensor floats = is_floating_point(x.dtype()) ? x : x.to(default_float);
  const std::int64_t length = reduced.count(x.shape());
  Tensor result = detail::make_empty("logsumexp", reduced.shape(x.shape(), keepdims),
                                     floats.dtype(), x.device());
  if (length == 0) return result.fill(-std::numeric_limits<double>::infinity());
  if (result.numel() == 0) return result;
  const Tensor rows = floats.transpose(reduced.reduced_last(x.ndim()))
                          .contiguous()
                          .reshape({result.numel(), length});
  RowCall call = row_call(RowOp::logsumexp, rows, 1);
  call.out = result.impl().data;
  backend::backend_for(x.device()).rows(call);
  return result;
}

namespace {

// The derivatives of logsumexp, widened: the softmax. A row of −∞ weighs nothing; in a row with +∞
// the elements that are +∞ share the weight, as they do in logaddexp.
Tensor weights(const Tensor& x, const Axes& axes, const ReducedAxes& reduced) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const Tensor wide = widened(x);
  const Tensor total = logsumexp(wide, axes, true).reshape(reduced.shape(x.shape(), true));
  const Tensor zero = zeros({}, total.dtype());
  const Tensor shift = where(isinf(total), zero, total);
  const Tensor has_infinity = equal(total, infinity);
  if (!any(has_infinity).item<bool>()) return exp(subtract(wide, shift));
  const Tensor is_infinity = equal(wide, infinity);
  const Tensor shares =
      divide(is_infinity.to(total.dtype()),
             maximum(count_nonzero(is_infinity, axes, true), 1).to(total.dtype()));
  // The side that `where` does not take must be finite, or its gradient would be 0 · ∞.
  const Tensor others = exp(subtract(where(has_infinity, zero, wide), shift));
  return where(has_infinity, shares, others);
}

}  // namespace

Tensor logsumexp_backward(const Tensor& grad_output, const Tensor& x, const Axes& axes) {
  check_float("logsumexp_backward", "x", x);
  const ReducedAxes reduced("logsumexp_backward", axes, x.ndim());
  const Tensor g =
      ops::gradient_with_kept_axes("logsumexp_backward", grad_output, x.shape(), reduced);
  return multiply(weights(x, axes, reduced), g).to(x.dtype());
}

// grad_x = g·p with the weights p, whose own gradient is p·(· − Σ · p).
std::pair<Tensor, Tensor> logsumexp_double_backward(const Tensor& grad_grad_x,
                                                    const Tensor& grad_output, const Tensor& x,
                                                    const Axes& axes) {
  constexpr const char* operation = "logsumexp_double_backward";
  check_float(operation, "x", x);
  const ReducedAxes reduced(operation, axes, x.ndim());
  const Tensor g = ops::gradient_with_kept_axes(operation, grad_output, x.shape(), reduced);
  ops::check_gradient(operation, "grad_grad_x", grad_grad_x, x.shape());
  const Tensor v = widened(grad_grad_x), p = weights(x, axes, reduced);
  const Tensor along = sum(v * p, axes, true);
  return {along.reshape(grad_output.shape()).to(grad_output.dtype()),
          (p * (v - along) * g).to(x.dtype())};
}

}  // namespace extensor
