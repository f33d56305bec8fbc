#include "extensor/reduction.h"

#include <algorithm>
#include <limits>

#include "backend/backend.h"
#include "core/check.h"
#include "core/graph.h"
#include "core/make_tensor.h"
#include "extensor/creation.h"
#include "extensor/cumulative.h"
#include "extensor/manipulation.h"
#include "extensor/second_order.h"
#include "ops/gradient_eps.h"
#include "ops/launch.h"
#include "ops/reduced_shape.h"

namespace extensor {

namespace {

using backend::ReduceOp;
using detail::message;
using ops::check_float;
using ops::gradient_with_kept_axes;
using ops::ReducedAxes;

Tensor reduce(ReduceOp op, const char* operation, const Tensor& x, const ReducedAxes& axes,
              bool keepdims, DType dtype, double divisor = 1) {
  Tensor result = detail::make_empty(operation, axes.shape(x.shape(), keepdims), dtype, x.device());
  backend::ReduceCall call{};
  call.op = op;
  call.shape = &x.shape();
  call.reduced = axes.reduced;
  call.input = {x.impl().data, x.dtype(), x.strides().data()};
  call.out = {result.impl().data, dtype, nullptr};
  call.divisor = divisor;
  backend::backend_for(x.device()).reduce(call);
  return result;
}

DType accumulated_dtype(DType dtype) {
  if (is_floating_point(dtype)) return dtype;
  return is_unsigned_integer(dtype) ? DType::uint64 : DType::int64;
}

void check_not_empty(const char* operation, const Tensor& x, const ReducedAxes& axes) {
  if (axes.count(x.shape()) != 0) return;
  throw ValueError(message(operation, ": nothing to reduce: x is ", x.shape(),
                           " and the reduced axes have no elements"));
}

Tensor extreme(ReduceOp op, const char* operation, const Tensor& x, const Axes& axes,
               bool keepdims) {
  const ReducedAxes reduced(operation, axes, x.ndim());
  check_not_empty(operation, x, reduced);
  return reduce(op, operation, x, reduced, keepdims, x.dtype());
}

// g shared equally among the elements that are the extreme.
Tensor extreme_backward(ReduceOp op, const char* operation, const Tensor& grad_output,
                        const Tensor& x, const Axes& axes) {
  check_float(operation, "x", x);
  const ReducedAxes reduced(operation, axes, x.ndim());
  const Tensor g = gradient_with_kept_axes(operation, grad_output, x.shape(), reduced);
  if (x.numel() == 0) return zeros_like(x);
  check_not_empty(operation, x, reduced);
  const Tensor best = reduce(op, operation, x, reduced, true, x.dtype());
  // NaN wins as in the forward, though it equals nothing.
  const Tensor hit = equal(x, best) | (isnan(x) & isnan(best));
  const Tensor count = reduce(ReduceOp::sum, operation, hit, reduced, true, DType::int64);
  const Tensor share = divide(g, count.to(ops::compute_dtype(x.dtype())));
  return where(hit, share, zeros({}, share.dtype())).to(x.dtype());
}

Tensor position(ReduceOp op, const char* operation, const Tensor& x,
                std::optional<std::int64_t> axis, bool keepdims) {
  const Axes axes = axis ? Axes(*axis) : Axes();
  const ReducedAxes reduced(operation, axes, x.ndim());
  check_not_empty(operation, x, reduced);
  return reduce(op, operation, x, reduced, keepdims, DType::int64);
}

// What g becomes of a backward that is linear in it: Σ grad_grad_x · backward(1) over the axes, all
// checked.
Tensor summed_along(Tensor (*backward)(const Tensor&, const Tensor&, const Axes&),
                    const char* operation, const Tensor& grad_grad_x, const Tensor& grad_output,
                    const Tensor& x, const Axes& axes) {
  check_float(operation, "x", x);
  const Tensor g = gradient_with_kept_axes(operation, grad_output, x.shape(),
                                           ReducedAxes(operation, axes, x.ndim()));
  ops::check_gradient(operation, "grad_grad_x", grad_grad_x, x.shape());
  const DType compute = ops::compute_dtype(x.dtype());
  const Tensor slopes = backward(ones_like(g.to(compute)), x.to(compute), axes);
  return sum(multiply(grad_grad_x, slopes), axes, true)
      .reshape(grad_output.shape())
      .to(grad_output.dtype());
}

}  // namespace

// ---- sum and mean
// ----------------------------------------------------------------------------------

Tensor sum(const Tensor& x, const Axes& axes, StrictBool keepdims) {
  if (detail::records(x)) {
    return detail::recorded_linear(
        "sum", [&] { return sum(x, axes, keepdims); },
        [shape = x.shape(), axes](const Tensor& g) { return sum_backward(g, shape, axes); }, x);
  }
  return reduce(ReduceOp::sum, "sum", x, ReducedAxes("sum", axes, x.ndim()), keepdims,
                accumulated_dtype(x.dtype()));
}

Tensor sum_backward(const Tensor& grad_output, const Shape& input_shape, const Axes& axes) {
  const ReducedAxes reduced("sum_backward", axes, static_cast<std::int64_t>(input_shape.size()));
  return gradient_with_kept_axes("sum_backward", grad_output, input_shape, reduced)
      .broadcast_to(input_shape)
      .clone();
}

Tensor mean(const Tensor& x, const Axes& axes, StrictBool keepdims) {
  if (detail::records(x)) {
    return detail::recorded_linear(
        "mean", [&] { return mean(x, axes, keepdims); },
        [shape = x.shape(), axes](const Tensor& g) { return mean_backward(g, shape, axes); }, x);
  }
  const ReducedAxes reduced("mean", axes, x.ndim());
  const DType dtype = is_floating_point(x.dtype()) ? x.dtype() : default_float;
  return reduce(ReduceOp::sum, "mean", x, reduced, keepdims, dtype,
                static_cast<double>(reduced.count(x.shape())));
}

Tensor mean_backward(const Tensor& grad_output, const Shape& input_shape, const Axes& axes) {
  const ReducedAxes reduced("mean_backward", axes, static_cast<std::int64_t>(input_shape.size()));
  const Tensor g = gradient_with_kept_axes("mean_backward", grad_output, input_shape, reduced);
  return divide(g, static_cast<double>(reduced.count(input_shape)))
      .broadcast_to(input_shape)
      .clone();
}

// ---- extremes
// --------------------------------------------------------------------------------------

Tensor max_reduce(const Tensor& x, const Axes& axes, StrictBool keepdims) {
  if (detail::records(x)) {
    return detail::recorded(
        "max_reduce", [&] { return max_reduce(x, axes, keepdims); },
        [axes](const Tensor& g, const Tensor& x) { return max_reduce_backward(g, x, axes); }, x);
  }
  return extreme(ReduceOp::max, "max_reduce", x, axes, keepdims);
}

Tensor max_reduce_backward(const Tensor& grad_output, const Tensor& x, const Axes& axes) {
  return extreme_backward(ReduceOp::max, "max_reduce_backward", grad_output, x, axes);
}

std::pair<Tensor, Tensor> max_reduce_double_backward(const Tensor& grad_grad_x,
                                                     const Tensor& grad_output, const Tensor& x,
                                                     const Axes& axes) {
  return {summed_along(max_reduce_backward, "max_reduce_double_backward", grad_grad_x, grad_output,
                       x, axes),
          zeros_like(x)};
}

Tensor min_reduce(const Tensor& x, const Axes& axes, StrictBool keepdims) {
  if (detail::records(x)) {
    return detail::recorded(
        "min_reduce", [&] { return min_reduce(x, axes, keepdims); },
        [axes](const Tensor& g, const Tensor& x) { return min_reduce_backward(g, x, axes); }, x);
  }
  return extreme(ReduceOp::min, "min_reduce", x, axes, keepdims);
}

Tensor min_reduce_backward(const Tensor& grad_output, const Tensor& x, const Axes& axes) {
  return extreme_backward(ReduceOp::min, "min_reduce_backward", grad_output, x, axes);
}

std::pair<Tensor, Tensor> min_reduce_double_backward(const Tensor& grad_grad_x,
                                                     const Tensor& grad_output, const Tensor& x,
                                                     const Axes& axes) {
  return {summed_along(min_reduce_backward, "min_reduce_double_backward", grad_grad_x, grad_output,
                       x, axes),
          zeros_like(x)};
}

Tensor argmax(const Tensor& x, std::optional<StrictInt> axis, StrictBool keepdims) {
  return position(ReduceOp::argmax, "argmax", x, axis, keepdims);
}

Tensor argmin(const Tensor& x, std::optional<StrictInt> axis, StrictBool keepdims) {
  return position(ReduceOp::argmin, "argmin", x, axis, keepdims);
}

// ---- product
// ---------------------------------------------------------------------------------------

Tensor prod(const Tensor& x, const Axes& axes, StrictBool keepdims) {
  if (detail::records(x)) {
    return detail::recorded(
        "prod", [&] { return prod(x, axes, keepdims); },
        [axes](const Tensor& g, const Tensor& x) { return prod_backward(g, x, axes); }, x);
  }
  return reduce(ReduceOp::prod, "prod", x, ReducedAxes("prod", axes, x.ndim()), keepdims,
                accumulated_dtype(x.dtype()));
}

// The product of the others: prod / x without a 0; with one 0 only that element has a gradient, the
// product of the rest; with more, none has.
Tensor prod_backward(const Tensor& grad_output, const Tensor& x, const Axes& axes) {
  if (detail::records(grad_output, x)) {
    return detail::recorded(
        "prod_backward", [&] { return prod_backward(grad_output, x, axes); },
        [axes](const Tensor& v, const Tensor& g, const Tensor& x) {
          return prod_double_backward(v, g, x, axes);
        },
        grad_output, x);
  }
  check_float("prod_backward", "x", x);
  const ReducedAxes reduced("prod_backward", axes, x.ndim());
  const Tensor g = gradient_with_kept_axes("prod_backward", grad_output, x.shape(), reduced);
  if (x.numel() == 0) return zeros_like(x);
  // In float64, so that a product beyond a narrower dtype's range still gives its parts.
  constexpr DType compute = DType::float64;
  const Tensor wide = x.to(compute);
  const Tensor is_zero = equal(wide, 0);
  const Tensor zero_count =
      reduce(ReduceOp::sum, "prod_backward", is_zero, reduced, true, DType::int64);
  const Tensor nonzero = where(is_zero, ones({}, compute), wide);
  const Tensor rest =
      multiply(reduce(ReduceOp::prod, "prod_backward", nonzero, reduced, true, compute), g);
  const Tensor none = zeros({}, compute);
  const Tensor without_zero = where(equal(zero_count, 0), divide(rest, nonzero), none);
  const Tensor with_one_zero = where(equal(zero_count, 1) & is_zero, rest, none);
  return add(without_zero, with_one_zero).to(x.dtype());
}

namespace {

// Of each row [1, n] the products of all elements before each, and the gradient of that.
Tensor products_before(const Tensor& rows) {
  return concatenate({ones_like(rows.slice(1, 0, 1)), cumulative_prod(rows.slice(1, 0, -1), 1)}, 1);
}
Tensor products_before_backward(const Tensor& g, const Tensor& rows) {
  return concatenate({cumulative_prod_backward(g.slice(1, 1), rows.slice(1, 0, -1), 1),
                      zeros_like(rows.slice(1, 0, 1))},
                     1);
}

}  // namespace

// The product of the others is that of those before times that of those behind, zeros or not.
std::pair<Tensor, Tensor> prod_double_backward(const Tensor& grad_grad_x, const Tensor& grad_output,
                                               const Tensor& x, const Axes& axes) {
  constexpr const char* operation = "prod_double_backward";
  const Tensor of_grad_output =
      summed_along(prod_backward, operation, grad_grad_x, grad_output, x, axes);
  if (x.numel() == 0) return {of_grad_output, zeros_like(x)};
  const ReducedAxes reduced(operation, axes, x.ndim());
  const Tensor g = gradient_with_kept_axes(operation, grad_output, x.shape(), reduced);
  const Dims order = reduced.reduced_last(x.ndim());
  const std::int64_t length = reduced.count(x.shape());
  const auto as_rows = [&](const Tensor& values) {
    return values.to(DType::float64).transpose(order).reshape({x.numel() / length, length});
  };
  const Tensor ahead = as_rows(x), behind = flip(ahead, 1);
  const Tensor weights = as_rows(multiply(grad_grad_x.to(DType::float64), g));
  const Tensor of_before = multiply(weights, flip(products_before(behind), 1));
  const Tensor of_behind = flip(multiply(weights, products_before(ahead)), 1);
  const Tensor of_rows = add(products_before_backward(of_before, ahead),
                             flip(products_before_backward(of_behind, behind), 1));
  Dims back(order.size(), 0);
  for (std::size_t d = 0; d < order.size(); ++d) {
    back[static_cast<std::size_t>(order[d])] = static_cast<std::int64_t>(d);
  }
  return {of_grad_output,
          of_rows.reshape(x.transpose(order).shape()).transpose(back).contiguous().to(x.dtype())};
}

// ---- variance
// --------------------------------------------------------------------------------------

namespace {

void check_correction(const char* operation, double correction) {
  if (correction >= 0) return;
  throw ValueError(message(operation, ": correction is ", correction, ", must be 0 or more"));
}

double degrees_of_freedom(const Shape& shape, const ReducedAxes& axes, double correction) {
  return std::max(0.0, static_cast<double>(axes.count(shape)) - correction);
}

Tensor deviations(const Tensor& wide, const ReducedAxes& axes) {
  return subtract(wide, mean(wide, axes.list(wide.ndim()), true));
}

Tensor wide_variance(const char* operation, const Tensor& x, const ReducedAxes& axes,
                     double correction, bool keepdims) {
  const DType dtype = is_floating_point(x.dtype()) ? x.dtype() : default_float;
  const Tensor squares = square(deviations(x.to(ops::compute_dtype(dtype)), axes));
  const double freedom = degrees_of_freedom(x.shape(), axes, correction);
  Tensor result = reduce(ReduceOp::sum, operation, squares, axes, keepdims, squares.dtype(),
                         freedom > 0 ? freedom : 1);
  if (freedom <= 0) result.fill(std::numeric_limits<double>::quiet_NaN());
  return result;
}

DType float_result(DType dtype) { return is_floating_point(dtype) ? dtype : default_float; }

Tensor variance_gradient(const Tensor& g, const Tensor& x, const ReducedAxes& axes,
                         double correction) {
  const Tensor wide = x.to(ops::compute_dtype(x.dtype()));
  const double freedom = degrees_of_freedom(x.shape(), axes, correction);
  const double factor = freedom > 0 ? 2 / freedom : std::numeric_limits<double>::quiet_NaN();
  return multiply(multiply(deviations(wide, axes), factor), g).to(x.dtype());
}

}  // namespace

Tensor var(const Tensor& x, const Axes& axes, StrictDouble correction, StrictBool keepdims) {
  if (detail::records(x)) {
    return detail::recorded(
        "var", [&] { return var(x, axes, correction, keepdims); },
        [axes, correction](const Tensor& g, const Tensor& x) {
          return var_backward(g, x, axes, correction);
        },
        x);
  }
  check_correction("var", correction);
  const ReducedAxes reduced("var", axes, x.ndim());
  return wide_variance("var", x, reduced, correction, keepdims).to(float_result(x.dtype()));
}

Tensor var_backward(const Tensor& grad_output, const Tensor& x, const Axes& axes,
                    StrictDouble correction) {
  if (detail::records(grad_output, x)) {
    return detail::recorded(
        "var_backward", [&] { return var_backward(grad_output, x, axes, correction); },
        [axes, correction](const Tensor& v, const Tensor& g, const Tensor& x) {
          return var_double_backward(v, g, x, axes, correction);
        },
        grad_output, x);
  }
  check_float("var_backward", "x", x);
  check_correction("var_backward", correction);
  const ReducedAxes reduced("var_backward", axes, x.ndim());
  const Tensor g = gradient_with_kept_axes("var_backward", grad_output, x.shape(), reduced);
  return variance_gradient(g, x, reduced, correction);
}

// grad_x = g · 2 / (n − correction) · (x − mean): linear in g, and in x.
std::pair<Tensor, Tensor> var_double_backward(const Tensor& grad_grad_x, const Tensor& grad_output,
                                              const Tensor& x, const Axes& axes,
                                              StrictDouble correction) {
  constexpr const char* operation = "var_double_backward";
  check_float(operation, "x", x);
  check_correction(operation, correction);
  const Tensor g = gradient_with_kept_axes(operation, grad_output, x.shape(),
                                           ReducedAxes(operation, axes, x.ndim()));
  ops::check_gradient(operation, "grad_grad_x", grad_grad_x, x.shape());
  const DType compute = ops::compute_dtype(x.dtype());
  const Tensor slopes = var_backward(ones_like(g.to(compute)), x.to(compute), axes, correction);
  return {sum(multiply(grad_grad_x, slopes), axes, true)
              .reshape(grad_output.shape())
              .to(grad_output.dtype()),
          var_backward(g, grad_grad_x.to(compute), axes, correction).to(x.dtype())};
}

Tensor std(const Tensor& x, const Axes& axes, StrictDouble correction, StrictBool keepdims) {
  if (detail::records(x)) {
    return detail::recorded(
        "std", [&] { return std(x, axes, correction, keepdims); },
        [axes, correction](const Tensor& g, const Tensor& x) {
          return std_backward(g, x, axes, correction, ops::gradient_eps());
        },
        x);
  }
  check_correction("std", correction);
  const ReducedAxes reduced("std", axes, x.ndim());
  return sqrt(wide_variance("std", x, reduced, correction, keepdims)).to(float_result(x.dtype()));
}

Tensor std_backward(const Tensor& grad_output, const Tensor& x, const Axes& axes,
                    StrictDouble correction, StrictDouble eps) {
  if (detail::records(grad_output, x)) {
    return detail::recorded(
        "std_backward", [&] { return std_backward(grad_output, x, axes, correction, eps); },
        [axes, correction, eps](const Tensor& v, const Tensor& g, const Tensor& x) {
          return std_double_backward(v, g, x, axes, correction, eps);
        },
        grad_output, x);
  }
  check_float("std_backward", "x", x);
  check_correction("std_backward", correction);
  const ReducedAxes reduced("std_backward", axes, x.ndim());
  const Tensor g = gradient_with_kept_axes("std_backward", grad_output, x.shape(), reduced);
  const Tensor deviation = sqrt(wide_variance("std_backward", x, reduced, correction, true));
  const Tensor through_root = sqrt_backward(g.to(deviation.dtype()), deviation, eps);
  return variance_gradient(through_root, x, reduced, correction);
}

// grad_x is var_backward of sqrt_backward(g, y), and y the deviation is a function of x too.
std::pair<Tensor, Tensor> std_double_backward(const Tensor& grad_grad_x, const Tensor& grad_output,
                                              const Tensor& x, const Axes& axes,
                                              StrictDouble correction, StrictDouble eps) {
  constexpr const char* operation = "std_double_backward";
  check_float(operation, "x", x);
  check_correction(operation, correction);
  const Tensor kept = gradient_with_kept_axes(operation, grad_output, x.shape(),
                                              ReducedAxes(operation, axes, x.ndim()));
  ops::check_gradient(operation, "grad_grad_x", grad_grad_x, x.shape());
  const DType compute = ops::compute_dtype(x.dtype());
  const Tensor wide = x.to(compute), g = kept.to(compute);
  const Tensor y = extensor::std(wide, axes, correction, true);
  const auto [of_root, through_variance] = var_double_backward(
      grad_grad_x.to(compute), sqrt_backward(g, y, eps), wide, axes, correction);
  const auto [of_g, of_y] = sqrt_double_backward(of_root, g, y, eps);
  return {of_g.reshape(grad_output.shape()).to(grad_output.dtype()),
          add(through_variance, std_backward(of_y, wide, axes, correction, eps)).to(x.dtype())};
}

// ---- truth
// -----------------------------------------------------------------------------------------

Tensor all(const Tensor& x, const Axes& axes, StrictBool keepdims) {
  return reduce(ReduceOp::all, "all", x, ReducedAxes("all", axes, x.ndim()), keepdims,
                DType::bool_);
}

Tensor any(const Tensor& x, const Axes& axes, StrictBool keepdims) {
  return reduce(ReduceOp::any, "any", x, ReducedAxes("any", axes, x.ndim()), keepdims,
                DType::bool_);
}

Tensor count_nonzero(const Tensor& x, const Axes& axes, StrictBool keepdims) {
  return reduce(ReduceOp::sum, "count_nonzero", x.to(DType::bool_),
                ReducedAxes("count_nonzero", axes, x.ndim()), keepdims, DType::int64);
}

}  // namespace extensor
