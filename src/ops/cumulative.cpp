#include "extensor/cumulative.h"

#include <vector>

#include "backend/backend.h"
#include "core/check.h"
#include "core/graph.h"
#include "core/make_tensor.h"
#include "extensor/complex.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/manipulation.h"
#include "extensor/reduction.h"
#include "ops/axis_view.h"
#include "ops/complex_parts.h"
#include "ops/launch.h"
#include "ops/reduced_shape.h"
#include "ops/registry.h"

namespace extensor {

namespace {

using backend::ScanCall;
using backend::ScanOp;
using detail::message;
using namespace ops;

struct ScanAttributes {
  std::optional<std::int64_t> axis;  // may be omitted for at most one dimension
};

// A 0-d tensor is a row of one element.
std::int64_t scan_axis(const char* operation, const Tensor& x, std::optional<std::int64_t> axis) {
  if (axis) return detail::normalize_axis(operation, *axis, x.ndim() == 0 ? 1 : x.ndim());
  if (x.ndim() <= 1) return 0;
  throw ValueError(message(operation, ": x is ", x.shape(),
                           " and no axis is given (needed beyond one dimension)"));
}

// x is dense and has the dtype of the result.
ScanCall scan_call(ScanOp op, const Tensor& x, std::int64_t axis) {
  const AxisView view(x.shape(), axis);
  ScanCall call{};
  call.op = op;
  call.dtype = x.dtype();
  call.outer = view.outer;
  call.length = view.length;
  call.inner = view.inner;
  call.x = detail::dense_data(x);
  return call;
}

Tensor run_scan(const char* operation, const Tensor& x, ScanCall& call) {
  check_real(operation, "x", x);
  Tensor result = detail::make_empty(operation, x.shape(), x.dtype(), x.device());
  call.out = result.impl().data;
  backend::backend_for(x.device()).scan(call);
  return result;
}

template <ScanOp op>
Tensor scan_forward(const Run& run, const ScanAttributes& attributes, const Tensor& x) {
  const std::int64_t along = scan_axis(run.name(), x, attributes.axis);
  const Tensor dense = x.to(accumulated_dtype(x.dtype())).contiguous();
  ScanCall call = scan_call(op, dense, along);
  return run_scan(run.name(), dense, call);
}

// ---- sum

Tensor sum_backward_forward(const Run& run, const ScanAttributes& attributes,
                            const Tensor& grad_output) {
  check_has_gradient(run.name(), "grad_output", grad_output);
  const std::int64_t along = scan_axis(run.name(), grad_output, attributes.axis);
  const Tensor dense = grad_output.contiguous();
  ScanCall call = scan_call(ScanOp::sum, dense, along);
  call.reverse = true;
  return run_scan(run.name(), dense, call);
}

// The two ops are each other's gradient.
template <Tensor (*other)(const Tensor&, std::optional<StrictInt>)>
Gradients sum_gradient(const GradientCall& call, const ScanAttributes& attributes) {
  return other(call.grad(), attributes.axis);
}

constexpr auto cumulative_sum_op =
    define<scan_forward<ScanOp::sum>, sum_gradient<cumulative_sum_backward>>(
        {.name = "cumulative_sum", .inputs = {"x"}});
constexpr auto cumulative_sum_backward_op =
    define<sum_backward_forward, sum_gradient<cumulative_sum>>(
        {.name = "cumulative_sum_backward", .inputs = {"grad_output"}});

// ---- product

Gradients prod_gradient(const GradientCall& call, const ScanAttributes& attributes) {
  return cumulative_prod_backward(call.grad(), call.input(0), attributes.axis);
}

Tensor prod_backward_forward(const Run& run, const ScanAttributes& attributes,
                             const Tensor& grad_output, const Tensor& x) {
  check_float(run.name(), "x", x);
  const std::int64_t along = scan_axis(run.name(), x, attributes.axis);
  check_grad_output(run.name(), grad_output, x.shape());
  const DType wide = promote_types(grad_output.dtype(), x.dtype());
  const Tensor dense = x.to(wide).contiguous(), g = grad_output.to(wide).contiguous();
  ScanCall call = scan_call(ScanOp::prod_backward, dense, along);
  call.grad_output = detail::dense_data(g);
  return run_scan(run.name(), dense, call).to(x.dtype());
}

// Composes the gradients of prod_backward from recorded operations, for the third order and beyond;
// takes n times the memory. grad_x_i = Σ_k≥i g_k C_ik, where row i of C holds the cumulative
// products of x with x_i replaced by 1.
Gradients composed_second_gradients(const Tensor& grad_grad_x, const Tensor& grad_output,
                                    const Tensor& x, std::int64_t axis) {
  const DType compute = compute_dtype(
      promote_types(promote_types(grad_output.dtype(), x.dtype()), grad_grad_x.dtype()));
  const auto as_rows = [&](const Tensor& values) {
    const Tensor wide = values.to(compute);
    return values.ndim() == 0 ? wide.reshape({1}) : moveaxis(wide, axis, -1);
  };
  const auto back = [&](const Tensor& rows) {
    return x.ndim() == 0 ? rows.reshape({}) : moveaxis(rows, -1, axis);
  };
  const Tensor v = as_rows(grad_grad_x).unsqueeze(-1), g = as_rows(grad_output).unsqueeze(-2);
  const Tensor rows = as_rows(x).unsqueeze(-2);
  const std::int64_t length = rows.size(-1);
  const Tensor is_left_out = eye(length, length, 0, {DType::bool_, x.device()});
  const Tensor is_behind = triu(ones({length, length}, {compute, x.device()}));
  const Tensor factors = where(is_left_out, ones({}, {compute, cpu_device}), rows);
  const Tensor weights = multiply(v, is_behind);
  const Tensor of_factors =
      cumulative_prod_backward(multiply(weights, g), factors, factors.ndim() - 1);
  return {back(sum(multiply(weights, cumulative_prod(factors, factors.ndim() - 1)), -2)),
          back(sum(where(is_left_out, zeros({}, {compute, cpu_device}), of_factors), -2))};
}

Gradients prod_backward_gradient(const GradientCall& call, const ScanAttributes& attributes) {
  const Tensor &v = call.grad(), &grad_output = call.input(0), &x = call.input(1);
  const std::int64_t along = scan_axis(call.name(), x, attributes.axis);
  if (detail::records(v, grad_output, x)) {
    return composed_second_gradients(v, grad_output, x, along);
  }
  const DType wide = promote_types(promote_types(grad_output.dtype(), x.dtype()), v.dtype());
  const Tensor dense = x.to(wide).contiguous(), g = grad_output.to(wide).contiguous(),
               dense_v = v.to(wide).contiguous();
  Tensor of_grad_output = detail::make_empty(call.name(), x.shape(), wide, x.device());
  ScanCall scan = scan_call(ScanOp::prod_double_backward, dense, along);
  scan.grad_output = detail::dense_data(g);
  scan.grad_gradient = detail::dense_data(dense_v);
  scan.grad_grad_output = of_grad_output.impl().data;
  const Tensor of_x = run_scan(call.name(), dense, scan);
  return {of_grad_output, of_x};
}

constexpr auto cumulative_prod_op = define<scan_forward<ScanOp::prod>, prod_gradient>(
    {.name = "cumulative_prod", .inputs = {"x"}, .reads = {input(0)}});
constexpr auto cumulative_prod_backward_op = define<prod_backward_forward, prod_backward_gradient>(
    {.name = "cumulative_prod_backward",
     .inputs = {"grad_output", "x"},
     .reads = {input(0) | input(1), input(0) | input(1)}});

}  // namespace

namespace {

// The positive number of the axis of a complex tensor, which an axis of its parts then follows.
std::int64_t axis_of_parts(const char* operation, const Tensor& x, std::optional<StrictInt> axis) {
  return scan_axis(operation, x, axis ? std::optional<std::int64_t>(*axis) : std::nullopt);
}

template <auto& op>
Tensor scanned_parts(const Tensor& x, std::optional<StrictInt> axis) {
  const std::int64_t along = axis_of_parts(op.name, x, axis);
  const Tensor rows = x.ndim() == 0 ? x.reshape({1}) : x;
  const auto scan = [&](const Tensor& parts) { return dispatch(op, {along}, parts); };
  return by_parts(rows, scan).reshape(x.shape());
}

// One step of a cumulative product: every element times the one `step` places before it.
Tensor next_products(const Tensor& y, std::int64_t along, std::int64_t step) {
  const std::int64_t rest = y.size(along) - step;
  return concatenate(
      {y.slice(along, 0, step), multiply(y.slice(along, step), y.slice(along, 0, rest))}, along);
}

// Cumulative products in log n steps: after each, every element is the product of twice as many.
Tensor complex_cumulative_prod(const Tensor& x, std::optional<StrictInt> axis) {
  const std::int64_t along = axis_of_parts("cumulative_prod", x, axis);
  Tensor y = x.ndim() == 0 ? x.reshape({1}) : x;
  for (std::int64_t step = 1; step < y.size(along); step *= 2) y = next_products(y, along, step);
  return y.reshape(x.shape()).clone();
}

// Goes back through the steps of the cumulative product.
Tensor complex_cumulative_prod_backward(const Tensor& grad_output, const Tensor& x,
                                        std::optional<StrictInt> axis) {
  constexpr const char* operation = "cumulative_prod_backward";
  const std::int64_t along = axis_of_parts(operation, x, axis);
  check_grad_output(operation, grad_output, x.shape());
  const Shape rows = x.ndim() == 0 ? Shape{1} : x.shape();
  const std::int64_t length = rows[static_cast<std::size_t>(along)];
  std::vector<Tensor> products{x.reshape(rows)};  // before each step
  for (std::int64_t step = 1; step < length; step *= 2) {
    products.push_back(next_products(products.back(), along, step));
  }
  products.pop_back();  // the result
  Tensor g = grad_output.reshape(rows);
  for (std::int64_t step = std::int64_t{1} << products.size(); !products.empty();) {
    step /= 2;
    const Tensor y = conj(products.back());
    products.pop_back();
    const Tensor of_products = g.slice(along, step);
    const Tensor of_later = multiply(of_products, y.slice(along, 0, length - step));
    const Tensor of_earlier = multiply(of_products, y.slice(along, step));
    const Tensor rest = zeros_like(g.slice(along, 0, step)).to(of_earlier.dtype());
    g = add(concatenate({g.slice(along, 0, step).to(of_later.dtype()), of_later}, along),
            concatenate({of_earlier, rest}, along));
  }
  return gradient_as(g.reshape(x.shape()), x.dtype()).clone();
}

}  // namespace

Tensor cumulative_sum(const Tensor& x, std::optional<StrictInt> axis) {
  if (is_complex(x.dtype())) [[unlikely]] {
    return scanned_parts<cumulative_sum_op>(x, axis);
  }
  return dispatch(cumulative_sum_op, {axis}, x);
}
Tensor cumulative_sum_backward(const Tensor& grad_output, std::optional<StrictInt> axis) {
  if (is_complex(grad_output.dtype())) [[unlikely]] {
    return scanned_parts<cumulative_sum_backward_op>(grad_output, axis);
  }
  return dispatch(cumulative_sum_backward_op, {axis}, grad_output);
}
Tensor cumulative_prod(const Tensor& x, std::optional<StrictInt> axis) {
  if (is_complex(x.dtype())) [[unlikely]] {
    return complex_cumulative_prod(x, axis);
  }
  return dispatch(cumulative_prod_op, {axis}, x);
}
Tensor cumulative_prod_backward(const Tensor& grad_output, const Tensor& x,
                                std::optional<StrictInt> axis) {
  if (is_complex(x.dtype())) [[unlikely]] {
    return complex_cumulative_prod_backward(grad_output, x, axis);
  }
  return dispatch(cumulative_prod_backward_op, {axis}, grad_output, x);
}

constinit const OpList ops::cumulative_ops =
    listed<cumulative_sum_op, cumulative_sum_backward_op, cumulative_prod_op,
           cumulative_prod_backward_op>;

}  // namespace extensor
