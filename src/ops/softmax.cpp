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
#include "ops/registry.h"

namespace extensor {

namespace {

using backend::RowCall;
using backend::RowOp;
using namespace ops;
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
  call.x = detail::dense_data(x);
  return call;
}

// A 0-d tensor is a row of one element.
std::int64_t row_axis(const char* operation, const Tensor& x, std::int64_t axis) {
  return detail::normalize_axis(operation, axis, x.ndim() == 0 ? 1 : x.ndim());
}

Tensor widened(const Tensor& x) { return x.to(ops::compute_dtype(x.dtype())); }

// The sum over each row, with the axis kept; a 0-d tensor is a row of one element.
Tensor row_sum(const Tensor& x, std::int64_t axis) {
  return x.ndim() == 0 ? x : sum(x, axis, true);
}

Tensor as_rows(const Tensor& x) { return (x.ndim() == 0 ? x.reshape({1}) : x).contiguous(); }

template <RowOp op>
Tensor row_forward(const Run& run, const AxisAttribute& attributes, const Tensor& x) {
  const std::int64_t at = row_axis(run.name(), x, attributes.axis);
  const Tensor dense = as_rows(is_floating_point(x.dtype()) ? x : x.to(default_float));
  Tensor result = run.empty(x.shape(), dense.dtype());
  RowCall call = row_call(op, dense, at);
  call.out = result.impl().data;
  run.kernels().rows(call);
  return result;
}

template <RowOp op>
Tensor row_backward(const Run& run, const AxisAttribute& attributes, const Tensor& grad_output,
                    const Tensor& y) {
  check_float(run.name(), "y", y);
  const std::int64_t at = row_axis(run.name(), y, attributes.axis);
  ops::check_grad_output(run.name(), grad_output, y.shape());
  const DType wide = promote_types(grad_output.dtype(), y.dtype());
  const Tensor g = as_rows(grad_output.to(wide)), dense = as_rows(y.to(wide));
  Tensor result = run.empty(y.shape(), wide);
  RowCall call = row_call(op, g, at);
  call.y = detail::dense_data(dense);
  call.out = result.impl().data;
  run.kernels().rows(call);
  return result.to(y.dtype());
}

// ---- softmax

Gradients softmax_gradient(const GradientCall& call, const AxisAttribute& attributes) {
  return softmax_backward(call.grad(), call.result(), attributes.axis);
}

// softmax_backward is y·(g − Σ g·y). It is symmetric and linear in g; for y, as an independent
// input, dy = v·(g − Σ g·y) − g·Σ v·y.
Gradients softmax_backward_gradient(const GradientCall& call, const AxisAttribute& attributes) {
  const std::int64_t axis = attributes.axis;
  const Tensor v = widened(call.grad()), y = widened(call.input(1));
  Gradients gradients(2);
  if (call.needs(0)) gradients[0] = softmax_backward(v, y, axis);
  if (call.needs(1)) {
    const Tensor g = widened(call.input(0));
    gradients[1] = v * (g - row_sum(g * y, axis)) - g * row_sum(v * y, axis);
  }
  return gradients;
}

constexpr auto softmax_op = define<row_forward<RowOp::softmax>, softmax_gradient>(
    {.name = "softmax", .inputs = {"x"}, .reads = {result()}});
constexpr auto softmax_backward_op =
    define<row_backward<RowOp::softmax_backward>, softmax_backward_gradient>(
        {.name = "softmax_backward",
         .inputs = {"grad_output", "y"},
         .reads = {input(1), input(0) | input(1)}});

// ---- log_softmax

Gradients log_softmax_gradient(const GradientCall& call, const AxisAttribute& attributes) {
  return log_softmax_backward(call.grad(), call.result(), attributes.axis);
}

// log_softmax_backward is g − p·Σ g with the probabilities p = exp(y).
Gradients log_softmax_backward_gradient(const GradientCall& call, const AxisAttribute& attributes) {
  const std::int64_t axis = attributes.axis;
  const Tensor v = widened(call.grad()), p = exp(widened(call.input(1)));
  Gradients gradients(2);
  if (call.needs(0)) gradients[0] = v - row_sum(v * p, axis);
  if (call.needs(1)) gradients[1] = -(v * p * row_sum(widened(call.input(0)), axis));
  return gradients;
}

constexpr auto log_softmax_op = define<row_forward<RowOp::log_softmax>, log_softmax_gradient>(
    {.name = "log_softmax", .inputs = {"x"}, .reads = {result()}});
constexpr auto log_softmax_backward_op =
    define<row_backward<RowOp::log_softmax_backward>, log_softmax_backward_gradient>(
        {.name = "log_softmax_backward",
         .inputs = {"grad_output", "y"},
         .reads = {input(1), input(0) | input(1)}});

}  // namespace

Tensor softmax(const Tensor& x, StrictInt axis) { return dispatch(softmax_op, {axis}, x); }
Tensor softmax_backward(const Tensor& grad_output, const Tensor& y, StrictInt axis) {
  return dispatch(softmax_backward_op, {axis}, grad_output, y);
}
Tensor log_softmax(const Tensor& x, StrictInt axis) { return dispatch(log_softmax_op, {axis}, x); }
Tensor log_softmax_backward(const Tensor& grad_output, const Tensor& y, StrictInt axis) {
  return dispatch(log_softmax_backward_op, {axis}, grad_output, y);
}

namespace {

struct LogsumexpAttributes {
  Axes axes;
  bool keepdims;
};

Tensor logsumexp_forward(const Run& run, const LogsumexpAttributes& attributes, const Tensor& x) {
  const ReducedAxes reduced(run.name(), attributes.axes, x.ndim());
  const Tensor floats = is_floating_point(x.dtype()) ? x : x.to(default_float);
  const std::int64_t length = reduced.count(x.shape());
  Tensor result = run.empty(reduced.shape(x.shape(), attributes.keepdims), floats.dtype());
  if (length == 0) return result.fill(-std::numeric_limits<double>::infinity());
  if (result.numel() == 0) return result;
  const Tensor rows = floats.transpose(reduced.reduced_last(x.ndim()))
                          .contiguous()
                          .reshape({result.numel(), length});
  RowCall call = row_call(RowOp::logsumexp, rows, 1);
  call.out = result.impl().data;
  run.kernels().rows(call);
  return result;
}

Gradients logsumexp_gradient(const GradientCall& call, const LogsumexpAttributes& attributes) {
  return logsumexp_backward(call.grad(), call.input(0), attributes.axes);
}

constexpr auto logsumexp_op = define<logsumexp_forward, logsumexp_gradient>(
    {.name = "logsumexp", .inputs = {"x"}, .reads = {input(0)}});

}  // namespace

Tensor logsumexp(const Tensor& x, const Axes& axes, StrictBool keepdims) {
  return dispatch(logsumexp_op, {axes, keepdims}, x);
}

namespace {

// The derivative of logsumexp, widened: the softmax. The weights of a row of −∞ are 0. In a row
// with +∞, the infinite elements share the weight, as in logaddexp.
Tensor weights(const Tensor& x, const Axes& axes, const ReducedAxes& reduced) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const Tensor wide = widened(x);
  const Tensor total = logsumexp(wide, axes, true).reshape(reduced.shape(x.shape(), true));
  const Tensor zero = zeros({}, {total.dtype(), cpu_device});
  const Tensor shift = where(isinf(total), zero, total);
  const Tensor has_infinity = equal(total, infinity);
  // Fast path for the usual case, if the check does not block on a device.
  if (x.device() == cpu_device && !any(has_infinity).item<bool>()) {
    return exp(subtract(wide, shift));
  }
  const Tensor is_infinity = equal(wide, infinity);
  const Tensor shares =
      divide(is_infinity.to(total.dtype()),
             maximum(count_nonzero(is_infinity, axes, true), 1).to(total.dtype()));
  // The branch that `where` discards must be finite, or its gradient would be 0 · ∞.
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

constinit const OpList ops::softmax_ops =
    listed<softmax_op, softmax_backward_op, log_softmax_op, log_softmax_backward_op, logsumexp_op>;

}  // namespace extensor
