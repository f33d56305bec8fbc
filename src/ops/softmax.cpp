#include "extensor/softmax.h"

#include <limits>

#include "backend/backend.h"
#include "core/check.h"
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

Tensor softmax(const Tensor& x, std::int64_t axis) {
  return forward(RowOp::softmax, "softmax", x, axis);
}

Tensor softmax_backward(const Tensor& grad_output, const Tensor& y, std::int64_t axis) {
  return backward(RowOp::softmax_backward, "softmax_backward", grad_output, y, axis);
}

Tensor log_softmax(const Tensor& x, std::int64_t axis) {
  return forward(RowOp::log_softmax, "log_softmax", x, axis);
}

Tensor log_softmax_backward(const Tensor& grad_output, const Tensor& y, std::int64_t axis) {
  return backward(RowOp::log_softmax_backward, "log_softmax_backward", grad_output, y, axis);
}

Tensor logsumexp(const Tensor& x, const Axes& axes, bool keepdims) {
  const ReducedAxes reduced("logsumexp", axes, x.ndim());
  const Tensor floats = is_floating_point(x.dtype()) ? x : x.to(default_float);
  // The reduced axes last, as one row.
  Dims order;
  for (std::int64_t d = 0; d < x.ndim(); ++d) {
    if (!reduced.reduced[d]) order.push_back(d);
  }
  for (std::int64_t d = 0; d < x.ndim(); ++d) {
    if (reduced.reduced[d]) order.push_back(d);
  }
  const std::int64_t length = reduced.count(x.shape());
  Tensor result = detail::make_empty("logsumexp", reduced.shape(x.shape(), keepdims),
                                     floats.dtype(), x.device());
  if (length == 0) return result.fill(-std::numeric_limits<double>::infinity());
  if (result.numel() == 0) return result;
  const Tensor rows = floats.transpose(order).contiguous().reshape({result.numel(), length});
  RowCall call = row_call(RowOp::logsumexp, rows, 1);
  call.out = result.impl().data;
  backend::backend_for(x.device()).rows(call);
  return result;
}

Tensor logsumexp_backward(const Tensor& grad_output, const Tensor& x, const Axes& axes) {
  check_float("logsumexp_backward", "x", x);
  const ReducedAxes reduced("logsumexp_backward", axes, x.ndim());
  const Tensor g =
      ops::gradient_with_kept_axes("logsumexp_backward", grad_output, x.shape(), reduced);
  const Tensor wide = x.to(ops::compute_dtype(x.dtype()));
  // A row of −∞ weighs nothing; elsewhere the weights are the softmax.
  const Tensor total = logsumexp(wide, axes, true).reshape(reduced.shape(x.shape(), true));
  const Tensor shift = where(isinf(total), zeros({}, total.dtype()), total);
  return multiply(exp(subtract(wide, shift)), g).to(x.dtype());
}

}  // namespace extensor
