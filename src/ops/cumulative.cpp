#include "extensor/cumulative.h"

#include "backend/backend.h"
#include "core/check.h"
#include "core/graph.h"
#include "core/make_tensor.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/manipulation.h"
#include "extensor/reduction.h"
#include "ops/axis_view.h"
#include "ops/launch.h"

namespace extensor {

namespace {

using backend::ScanCall;
using backend::ScanOp;
using detail::message;

// A 0-d tensor is a row of one element.
std::int64_t scan_axis(const char* operation, const Tensor& x, std::optional<std::int64_t> axis) {
  if (axis) return detail::normalize_axis(operation, *axis, x.ndim() == 0 ? 1 : x.ndim());
  if (x.ndim() <= 1) return 0;
  throw ValueError(message(operation, ": x is ", x.shape(),
                           " and no axis is given (needed beyond one dimension)"));
}

// Of a dense tensor in the result's dtype.
ScanCall scan_call(ScanOp op, const Tensor& x, std::int64_t axis) {
  const ops::AxisView view(x.shape(), axis);
  ScanCall call{};
  call.op = op;
  call.dtype = x.dtype();
  call.outer = view.outer;
  call.length = view.length;
  call.inner = view.inner;
  call.x = x.impl().data;
  return call;
}

Tensor run(const char* operation, const Tensor& x, ScanCall& call) {
  Tensor result = detail::make_empty(operation, x.shape(), x.dtype(), x.device());
  call.out = result.impl().data;
  backend::backend_for(x.device()).scan(call);
  return result;
}

DType accumulated_dtype(DType dtype) {
  if (is_floating_point(dtype)) return dtype;
  return is_unsigned_integer(dtype) ? DType::uint64 : DType::int64;
}

Tensor forward(ScanOp op, const char* operation, const Tensor& x,
               std::optional<std::int64_t> axis) {
  const std::int64_t along = scan_axis(operation, x, axis);
  const Tensor dense = x.to(accumulated_dtype(x.dtype())).contiguous();
  ScanCall call = scan_call(op, dense, along);
  return run(operation, dense, call);
}

}  // namespace

Tensor cumulative_sum(const Tensor& x, std::optional<StrictInt> axis) {
  if (detail::records(x)) {
    return detail::recorded_linear(
        "cumulative_sum", [&] { return cumulative_sum(x, axis); },
        [axis](const Tensor& g) { return cumulative_sum_backward(g, axis); }, x);
  }
  return forward(ScanOp::sum, "cumulative_sum", x, axis);
}

Tensor cumulative_sum_backward(const Tensor& grad_output, std::optional<StrictInt> axis) {
  if (detail::records(grad_output)) {
    return detail::recorded_linear(
        "cumulative_sum_backward", [&] { return cumulative_sum_backward(grad_output, axis); },
        [axis](const Tensor& v) { return cumulative_sum(v, axis); }, grad_output);
  }
  constexpr const char* operation = "cumulative_sum_backward";
  ops::check_float(operation, "grad_output", grad_output);
  const std::int64_t along = scan_axis(operation, grad_output, axis);
  const Tensor dense = grad_output.contiguous();
  ScanCall call = scan_call(ScanOp::sum, dense, along);
  call.reverse = true;
  return run(operation, dense, call);
}

Tensor cumulative_prod(const Tensor& x, std::optional<StrictInt> axis) {
  if (detail::records(x)) {
    return detail::recorded(
        "cumulative_prod", [&] { return cumulative_prod(x, axis); },
        [axis](const Tensor& g, const Tensor& x) { return cumulative_prod_backward(g, x, axis); },
        x);
  }
  return forward(ScanOp::prod, "cumulative_prod", x, axis);
}

Tensor cumulative_prod_backward(const Tensor& grad_output, const Tensor& x,
                                std::optional<StrictInt> axis) {
  if (detail::records(grad_output, x)) {
    return detail::recorded(
        "cumulative_prod_backward", [&] { return cumulative_prod_backward(grad_output, x, axis); },
        [axis](const Tensor& v, const Tensor& g, const Tensor& x) {
          return cumulative_prod_double_backward(v, g, x, axis);
        },
        grad_output, x);
  }
  constexpr const char* operation = "cumulative_prod_backward";
  ops::check_float(operation, "x", x);
  const std::int64_t along = scan_axis(operation, x, axis);
  ops::check_grad_output(operation, grad_output, x.shape());
  const ops::Source pair[] = {grad_output, x};
  ops::common_device(operation, pair);
  const DType wide = promote_types(grad_output.dtype(), x.dtype());
  const Tensor dense = x.to(wide).contiguous(), g = grad_output.to(wide).contiguous();
  ScanCall call = scan_call(ScanOp::prod_backward, dense, along);
  call.grad_output = g.impl().data;
  return run(operation, dense, call).to(x.dtype());
}

namespace {

// cumulative_prod_double_backward as recorded operations, for gradients of the third order and
// beyond; n times the memory. grad_x_i = Σ_k≥i g_k C_ik, where row i of C are the cumulative
// products of x with a 1 in place i.
std::pair<Tensor, Tensor> composed_double_backward(const Tensor& grad_grad_x,
                                                   const Tensor& grad_output, const Tensor& x,
                                                   std::int64_t axis) {
  const DType compute = ops::compute_dtype(
      promote_types(promote_types(grad_output.dtype(), x.dtype()), grad_grad_x.dtype()));
  const auto as_rows = [&](const Tensor& values) {
    const Tensor wide = values.to(compute);
    return values.ndim() == 0 ? wide.reshape({1}) : moveaxis(wide, axis, -1);
  };
  const auto back = [&](const Tensor& rows, DType dtype) {
    return (x.ndim() == 0 ? rows.reshape({}) : moveaxis(rows, -1, axis)).to(dtype);
  };
  const Tensor v = as_rows(grad_grad_x).unsqueeze(-1), g = as_rows(grad_output).unsqueeze(-2);
  const Tensor rows = as_rows(x).unsqueeze(-2);
  const std::int64_t length = rows.size(-1);
  const Tensor is_left_out = eye(length, length, 0, DType::bool_);
  const Tensor is_behind = triu(ones({length, length}, compute));
  const Tensor factors = where(is_left_out, ones({}, compute), rows);
  const Tensor weights = multiply(v, is_behind);
  const Tensor of_factors =
      cumulative_prod_backward(multiply(weights, g), factors, factors.ndim() - 1);
  return {back(sum(multiply(weights, cumulative_prod(factors, factors.ndim() - 1)), -2),
               grad_output.dtype()),
          back(sum(where(is_left_out, zeros({}, compute), of_factors), -2), x.dtype())};
}

}  // namespace

std::pair<Tensor, Tensor> cumulative_prod_double_backward(const Tensor& grad_grad_x,
                                                          const Tensor& grad_output,
                                                          const Tensor& x,
                                                          std::optional<StrictInt> axis) {
  constexpr const char* operation = "cumulative_prod_double_backward";
  ops::check_float(operation, "x", x);
  const std::int64_t along = scan_axis(operation, x, axis);
  ops::check_grad_output(operation, grad_output, x.shape());
  ops::check_grad_output(operation, grad_grad_x, x.shape());
  const ops::Source operands[] = {grad_grad_x, grad_output, x};
  ops::common_device(operation, operands);
  if (detail::records(grad_grad_x, grad_output, x)) {
    return composed_double_backward(grad_grad_x, grad_output, x, along);
  }
  const DType wide =
      promote_types(promote_types(grad_output.dtype(), x.dtype()), grad_grad_x.dtype());
  const Tensor dense = x.to(wide).contiguous(), g = grad_output.to(wide).contiguous(),
               v = grad_grad_x.to(wide).contiguous();
  Tensor grad_grad_output = detail::make_empty(operation, x.shape(), wide, x.device());
  ScanCall call = scan_call(ScanOp::prod_double_backward, dense, along);
  call.grad_output = g.impl().data;
  call.grad_gradient = v.impl().data;
  call.grad_grad_output = grad_grad_output.impl().data;
  const Tensor grad_x = run(operation, dense, call);
  return {grad_grad_output.to(grad_output.dtype()), grad_x.to(x.dtype())};
}

}  // namespace extensor
