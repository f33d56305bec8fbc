#include "extensor/cumulative.h"

#include "backend/backend.h"
#include "core/check.h"
#include "core/make_tensor.h"
#include "ops/axis_view.h"
#include "ops/launch.h"

namespace extensor {

namespace {

using backend::ScanCall;
using backend::ScanOp;
using detail::message;

std::int64_t scan_axis(const char* operation, const Tensor& x, std::optional<std::int64_t> axis) {
  if (axis) return detail::normalize_axis(operation, *axis, x.ndim());
  if (x.ndim() == 1) return 0;
  throw ValueError(message(operation, ": x is ", x.shape(),
                           " and no axis is given (only one dimension needs none)"));
}

// Of dense tensors in the result's dtype.
Tensor scan(ScanOp op, const char* operation, const Tensor& x, std::int64_t axis,
            bool reverse = false, const Tensor& grad_output = {}) {
  Tensor result = detail::make_empty(operation, x.shape(), x.dtype(), x.device());
  const ops::AxisView view(x.shape(), axis);
  ScanCall call{};
  call.op = op;
  call.dtype = x.dtype();
  call.reverse = reverse;
  call.outer = view.outer;
  call.length = view.length;
  call.inner = view.inner;
  call.x = x.impl().data;
  if (grad_output.defined()) call.grad_output = grad_output.impl().data;
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
  return scan(op, operation, x.to(accumulated_dtype(x.dtype())).contiguous(), along);
}

}  // namespace

Tensor cumulative_sum(const Tensor& x, std::optional<std::int64_t> axis) {
  return forward(ScanOp::sum, "cumulative_sum", x, axis);
}

Tensor cumulative_sum_backward(const Tensor& grad_output, std::optional<std::int64_t> axis) {
  constexpr const char* operation = "cumulative_sum_backward";
  ops::check_float(operation, "grad_output", grad_output);
  const std::int64_t along = scan_axis(operation, grad_output, axis);
  return scan(ScanOp::sum, operation, grad_output.contiguous(), along, true);
}

Tensor cumulative_prod(const Tensor& x, std::optional<std::int64_t> axis) {
  return forward(ScanOp::prod, "cumulative_prod", x, axis);
}

Tensor cumulative_prod_backward(const Tensor& grad_output, const Tensor& x,
                                std::optional<std::int64_t> axis) {
  constexpr const char* operation = "cumulative_prod_backward";
  ops::check_float(operation, "x", x);
  const std::int64_t along = scan_axis(operation, x, axis);
  ops::check_grad_output(operation, grad_output, x.shape());
  const ops::Source pair[] = {grad_output, x};
  ops::common_device(operation, pair);
  const DType wide = promote_types(grad_output.dtype(), x.dtype());
  return scan(ScanOp::prod_backward, operation, x.to(wide).contiguous(), along, false,
              grad_output.to(wide).contiguous())
      .to(x.dtype());
}

}  // namespace extensor
