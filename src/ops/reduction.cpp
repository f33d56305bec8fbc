#include "extensor/reduction.h"

#include <algorithm>
#include <limits>

#include "backend/backend.h"
#include "core/check.h"
#include "core/make_tensor.h"
#include "extensor/complex.h"
#include "extensor/creation.h"
#include "extensor/cumulative.h"
#include "extensor/elementwise.h"
#include "extensor/manipulation.h"
#include "ops/complex_parts.h"
#include "ops/gradient_eps.h"
#include "ops/launch.h"
#include "ops/reduced_shape.h"
#include "ops/registry.h"

namespace extensor {

namespace {

using backend::ReduceOp;
using detail::message;
using namespace ops;

// Whether elements that are repeated change the result only by their number, if at all.
constexpr bool can_skip_repeats(ReduceOp op) {
  return op == ReduceOp::sum || op == ReduceOp::max || op == ReduceOp::min || op == ReduceOp::all ||
         op == ReduceOp::any;
}

Tensor reduce(ReduceOp op, const char* operation, const Tensor& x, const ReducedAxes& axes,
              bool keepdims, DType dtype, double divisor = 1) {
  check_real(operation, "x", x);
  // Along an axis with stride 0, as broadcast_to() makes it, all elements are one.
  Shape shape = x.shape();
  std::int64_t repeats = 1;
  for (std::size_t d = 0; d < shape.size() && can_skip_repeats(op); ++d) {
    if (!axes.reduced[d] || x.strides()[d] != 0 || shape[d] <= 1) continue;
    repeats *= shape[d];
    shape[d] = 1;
  }
  const bool is_mean = divisor != 1;
  const bool multiplies = repeats != 1 && op == ReduceOp::sum && !is_mean;
  const DType stored = multiplies ? compute_dtype(dtype) : dtype;  // rounded once
  Tensor result =
      detail::make_empty(operation, axes.shape(x.shape(), keepdims), stored, x.device());
  backend::ReduceCall call{};
  call.op = op;
  call.shape = &shape;
  call.reduced = axes.reduced;
  call.input = {x.impl().data, x.dtype(), x.strides().data()};
  call.out = {result.impl().data, stored, nullptr};
  call.divisor = is_mean ? divisor / static_cast<double>(repeats) : divisor;
  try {
    backend::backend_for(x.device()).reduce(call);
  } catch (const OutOfMemoryError& error) {  // of scratch memory, which does not know the op
    throw OutOfMemoryError(message(operation, ": ", error.what()));
  }
  return multiplies ? multiply(result, repeats).to(dtype) : result;
}

void check_not_empty(const char* operation, const Tensor& x, const ReducedAxes& axes) {
  if (axes.count(x.shape()) != 0) return;
  throw ValueError(message(operation, ": nothing to reduce: x is ", x.shape(),
                           " and the reduced axes have no elements"));
}

struct ReduceAttributes {
  Axes axes;
  bool keepdims;
};

// Rules for the dtype of the result.
DType same(DType dtype) { return dtype; }
DType as_int64(DType) { return DType::int64; }
DType as_bool(DType) { return DType::bool_; }
DType as_float(DType dtype) { return is_floating_point(dtype) ? dtype : default_float; }

// Runs one kernel. With `needs_elements`, throws ValueError if nothing is reduced.
template <ReduceOp op, auto result_dtype, bool needs_elements = false>
Tensor reduce_forward(const Run& run, const ReduceAttributes& attributes, const Tensor& x) {
  const ReducedAxes axes(run.name(), attributes.axes, x.ndim());
  if (needs_elements) check_not_empty(run.name(), x, axes);
  return reduce(op, run.name(), x, axes, attributes.keepdims, result_dtype(x.dtype()));
}

// Gradients that read the shape of x, and those that read x.
template <auto backward>
Gradients gradient_by_shape(const GradientCall& call, const ReduceAttributes& attributes) {
  return backward(call.grad(), call.shape(), attributes.axes);
}
template <auto backward>
Gradients gradient_by_input(const GradientCall& call, const ReduceAttributes& attributes) {
  return backward(call.grad(), call.input(0), attributes.axes);
}

// ---- sum and mean

Tensor mean_forward(const Run& run, const ReduceAttributes& attributes, const Tensor& x) {
  const ReducedAxes axes(run.name(), attributes.axes, x.ndim());
  return reduce(ReduceOp::sum, run.name(), x, axes, attributes.keepdims, as_float(x.dtype()),
                static_cast<double>(axes.count(x.shape())));
}

// The gradients as views, in which all elements of a sum share one place: the ops that read them
// need no copy. The public functions return memory that the caller may write to.
Tensor spread(const char* operation, const Tensor& grad_output, const Shape& input_shape,
              const Axes& axes, bool divides) {
  const ReducedAxes reduced(operation, axes, static_cast<std::int64_t>(input_shape.size()));
  const Tensor g = gradient_with_kept_axes(operation, grad_output, input_shape, reduced);
  const Tensor each = divides ? divide(g, static_cast<double>(reduced.count(input_shape))) : g;
  return each.broadcast_to(input_shape);
}
Tensor spread_sum(const Tensor& grad_output, const Shape& input_shape, const Axes& axes) {
  return spread("sum_backward", grad_output, input_shape, axes, false);
}
Tensor spread_mean(const Tensor& grad_output, const Shape& input_shape, const Axes& axes) {
  return spread("mean_backward", grad_output, input_shape, axes, true);
}

constexpr auto sum_op =
    define<reduce_forward<ReduceOp::sum, accumulated_dtype>, gradient_by_shape<spread_sum>>(
        {.name = "sum", .inputs = {"x"}, .reads = {shape()}});
constexpr auto mean_op = define<mean_forward, gradient_by_shape<spread_mean>>(
    {.name = "mean", .inputs = {"x"}, .reads = {shape()}});

}  // namespace

namespace {

// A linear reduction of a complex tensor: that of its parts, along an axis behind all others.
template <class Reduction>
Tensor reduced_parts(const char* operation, const Tensor& x, const Axes& axes,
                     const Reduction& reduction) {
  const ReducedAxes reduced(operation, axes, x.ndim());
  const Dims list = reduced.list(x.ndim());
  // Without an axis to reduce, nothing changes.
  return by_parts(x, [&](const Tensor& parts) { return reduction(parts, Axes(list)); });
}

}  // namespace

Tensor sum(const Tensor& x, const Axes& axes, StrictBool keepdims) {
  if (is_complex(x.dtype())) [[unlikely]] {
    return reduced_parts("sum", x, axes, [&](const Tensor& parts, const Axes& list) {
      return dispatch(sum_op, {list, keepdims}, parts);
    });
  }
  return dispatch(sum_op, {axes, keepdims}, x);
}

Tensor sum_backward(const Tensor& grad_output, const Shape& input_shape, const Axes& axes) {
  return spread_sum(grad_output, input_shape, axes).clone();
}

Tensor mean(const Tensor& x, const Axes& axes, StrictBool keepdims) {
  if (is_complex(x.dtype())) [[unlikely]] {
    return reduced_parts("mean", x, axes, [&](const Tensor& parts, const Axes& list) {
      return dispatch(mean_op, {list, keepdims}, parts);
    });
  }
  return dispatch(mean_op, {axes, keepdims}, x);
}

Tensor mean_backward(const Tensor& grad_output, const Shape& input_shape, const Axes& axes) {
  return spread_mean(grad_output, input_shape, axes).clone();
}

// ---- extremes

namespace {

constexpr auto max_reduce_op =
    define<reduce_forward<ReduceOp::max, same, true>, gradient_by_input<max_reduce_backward>>(
        {.name = "max_reduce", .inputs = {"x"}, .reads = {input(0)}});
constexpr auto min_reduce_op =
    define<reduce_forward<ReduceOp::min, same, true>, gradient_by_input<min_reduce_backward>>(
        {.name = "min_reduce", .inputs = {"x"}, .reads = {input(0)}});
constexpr auto argmax_op =
    define<reduce_forward<ReduceOp::argmax, as_int64, true>>({.name = "argmax", .inputs = {"x"}});
constexpr auto argmin_op =
    define<reduce_forward<ReduceOp::argmin, as_int64, true>>({.name = "argmin", .inputs = {"x"}});

// All elements equal to the extreme share g equally.
Tensor extreme_backward(ReduceOp op, const char* operation, const Tensor& grad_output,
                        const Tensor& x, const Axes& axes) {
  check_float(operation, "x", x);
  const ReducedAxes reduced(operation, axes, x.ndim());
  const Tensor g = gradient_with_kept_axes(operation, grad_output, x.shape(), reduced);
  if (x.numel() == 0) return zeros_like(x);
  check_not_empty(operation, x, reduced);
  const Tensor best = reduce(op, operation, x, reduced, true, x.dtype());
  // NaN wins as in the forward, although it is unequal to itself: where x is NaN, so is the best.
  const Tensor hit = equal(x, best) | isnan(x);
  const Tensor count = reduce(ReduceOp::sum, operation, hit, reduced, true, DType::int64);
  const Tensor share = divide(g, count.to(compute_dtype(x.dtype())));
  return where(hit, share, zeros({}, {share.dtype(), cpu_device})).to(x.dtype());
}

Axes one_or_all(std::optional<StrictInt> axis) { return axis ? Axes(*axis) : Axes(); }

}  // namespace

Tensor max_reduce(const Tensor& x, const Axes& axes, StrictBool keepdims) {
  return dispatch(max_reduce_op, {axes, keepdims}, x);
}
Tensor max_reduce_backward(const Tensor& grad_output, const Tensor& x, const Axes& axes) {
  return extreme_backward(ReduceOp::max, "max_reduce_backward", grad_output, x, axes);
}
Tensor min_reduce(const Tensor& x, const Axes& axes, StrictBool keepdims) {
  return dispatch(min_reduce_op, {axes, keepdims}, x);
}
Tensor min_reduce_backward(const Tensor& grad_output, const Tensor& x, const Axes& axes) {
  return extreme_backward(ReduceOp::min, "min_reduce_backward", grad_output, x, axes);
}

Tensor argmax(const Tensor& x, std::optional<StrictInt> axis, StrictBool keepdims) {
  return dispatch(argmax_op, {one_or_all(axis), keepdims}, x);
}
Tensor argmin(const Tensor& x, std::optional<StrictInt> axis, StrictBool keepdims) {
  return dispatch(argmin_op, {one_or_all(axis), keepdims}, x);
}

// ---- product

namespace {

struct ProdBackwardAttributes {
  Axes axes;
};

// The product of the other elements. Without zeros it is prod / x. With one zero, only that element
// has a gradient, the product of the rest; with more zeros, no element has one.
Tensor prod_backward_forward(const Run& run, const ProdBackwardAttributes& attributes,
                             const Tensor& grad_output, const Tensor& x) {
  check_float(run.name(), "x", x);
  const ReducedAxes reduced(run.name(), attributes.axes, x.ndim());
  const Tensor g = gradient_with_kept_axes(run.name(), grad_output, x.shape(), reduced);
  if (x.numel() == 0) return zeros_like(x);
  // Use float64, so that factors of a product that overflows a narrower dtype are still right.
  constexpr DType compute = DType::float64;
  const Tensor wide = x.to(compute);
  const Tensor is_zero = equal(wide, 0);
  const Tensor zero_count = reduce(ReduceOp::sum, run.name(), is_zero, reduced, true, DType::int64);
  const Tensor nonzero = where(is_zero, ones({}, {compute, cpu_device}), wide);
  const Tensor rest =
      multiply(reduce(ReduceOp::prod, run.name(), nonzero, reduced, true, compute), g);
  const Tensor none = zeros({}, {compute, cpu_device});
  const Tensor without_zero = where(equal(zero_count, 0), divide(rest, nonzero), none);
  const Tensor with_one_zero = where(equal(zero_count, 1) & is_zero, rest, none);
  return add(without_zero, with_one_zero).to(x.dtype());
}

// The exclusive cumulative product of each row [1, n], and its gradient.
Tensor products_before(const Tensor& rows) {
  return concatenate({ones_like(rows.slice(1, 0, 1)), cumulative_prod(rows.slice(1, 0, -1), 1)}, 1);
}
Tensor products_before_backward(const Tensor& g, const Tensor& rows) {
  return concatenate({cumulative_prod_backward(g.slice(1, 1), rows.slice(1, 0, -1), 1),
                      zeros_like(rows.slice(1, 0, 1))},
                     1);
}

// prod_backward is linear in g. The product of the other elements is the product of those before
// times the product of those after, with or without zeros.
Gradients prod_backward_gradient(const GradientCall& call,
                                 const ProdBackwardAttributes& attributes) {
  const Tensor &v = call.grad(), &x = call.input(1);
  const Axes& axes = attributes.axes;
  const ReducedAxes reduced(call.name(), axes, x.ndim());
  Gradients gradients(2);
  if (call.needs(0)) {
    const DType compute = compute_dtype(x.dtype());
    const Tensor one =
        detail::make_empty(call.name(), reduced.shape(x.shape(), true), compute, x.device())
            .fill(1);
    gradients[0] = sum(multiply(v, prod_backward(one, x.to(compute), axes)), axes, true)
                       .reshape(call.shape(0));
  }
  if (!call.needs(1)) return gradients;
  if (x.numel() == 0) {
    gradients[1] = zeros_like(x);
    return gradients;
  }
  const Tensor g = gradient_with_kept_axes(call.name(), call.input(0), x.shape(), reduced);
  const Dims order = reduced.reduced_last(x.ndim());
  const std::int64_t length = reduced.count(x.shape());
  const auto as_rows = [&](const Tensor& values) {
    return values.to(DType::float64).transpose(order).reshape({x.numel() / length, length});
  };
  const Tensor ahead = as_rows(x), behind = flip(ahead, 1);
  const Tensor weights = as_rows(multiply(v.to(DType::float64), g));
  const Tensor of_before = multiply(weights, flip(products_before(behind), 1));
  const Tensor of_behind = flip(multiply(weights, products_before(ahead)), 1);
  const Tensor of_rows = add(products_before_backward(of_before, ahead),
                             flip(products_before_backward(of_behind, behind), 1));
  Dims back(order.size(), 0);
  for (std::size_t d = 0; d < order.size(); ++d) {
    back[static_cast<std::size_t>(order[d])] = static_cast<std::int64_t>(d);
  }
  gradients[1] = of_rows.reshape(x.transpose(order).shape()).transpose(back).contiguous();
  return gradients;
}

constexpr auto prod_op =
    define<reduce_forward<ReduceOp::prod, accumulated_dtype>, gradient_by_input<prod_backward>>(
        {.name = "prod", .inputs = {"x"}, .reads = {input(0)}});
constexpr auto prod_backward_op = define<prod_backward_forward, prod_backward_gradient>(
    {.name = "prod_backward",
     .inputs = {"grad_output", "x"},
     .reads = {shape(0) | input(1), input(0) | input(1)}});

}  // namespace

namespace {

// The product of complex numbers: of the first half with the second, until one is left. The halves
// are recorded, so the gradient is exact where factors are 0.
Tensor complex_prod(const Tensor& x, const Axes& axes, bool keepdims) {
  const ReducedAxes reduced("prod", axes, x.ndim());
  const std::int64_t length = reduced.count(x.shape());
  const Shape shape = reduced.shape(x.shape(), keepdims);
  if (length == 0 || x.numel() == 0) return add(sum(x, axes, keepdims), 1);  // recorded
  Tensor rows = x.transpose(reduced.reduced_last(x.ndim())).reshape({x.numel() / length, length});
  while (rows.size(1) > 1) {
    const std::int64_t half = rows.size(1) / 2, rest = rows.size(1) - 2 * half;
    const Tensor products = multiply(rows.slice(1, 0, half), rows.slice(1, half, 2 * half));
    rows = rest == 0 ? products : concatenate({products, rows.slice(1, 2 * half)}, 1);
  }
  return rows.reshape(shape).clone();
}

// The product of the other elements, of those before times of those after: exact where factors are
// 0. Composed of recorded ops.
Tensor complex_prod_backward(const Tensor& grad_output, const Tensor& x, const Axes& axes) {
  constexpr const char* operation = "prod_backward";
  const ReducedAxes reduced(operation, axes, x.ndim());
  const Tensor g = gradient_with_kept_axes(operation, grad_output, x.shape(), reduced);
  if (x.numel() == 0) return zeros_like(x);
  const Dims order = reduced.reduced_last(x.ndim());
  const std::int64_t length = reduced.count(x.shape());
  const Tensor sorted = x.transpose(order);
  const Tensor ahead = sorted.reshape({x.numel() / length, length});
  const Tensor others = multiply(products_before(ahead), flip(products_before(flip(ahead, 1)), 1));
  Dims back(order.size(), 0);
  for (std::size_t d = 0; d < order.size(); ++d) {
    back[static_cast<std::size_t>(order[d])] = static_cast<std::int64_t>(d);
  }
  return multiply(conj(others.reshape(sorted.shape()).transpose(back)), g).to(x.dtype());
}

}  // namespace

Tensor prod(const Tensor& x, const Axes& axes, StrictBool keepdims) {
  if (is_complex(x.dtype())) [[unlikely]] {
    return complex_prod(x, axes, keepdims);
  }
  return dispatch(prod_op, {axes, keepdims}, x);
}
Tensor prod_backward(const Tensor& grad_output, const Tensor& x, const Axes& axes) {
  if (is_complex(x.dtype())) [[unlikely]] {
    return complex_prod_backward(grad_output, x, axes);
  }
  return dispatch(prod_backward_op, {axes}, grad_output, x);
}

// ---- variance

namespace {

struct SpreadAttributes {
  Axes axes;
  double correction;
  bool keepdims;
};

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

// The variance, or its square root.
template <bool root>
Tensor spread_forward(const Run& run, const SpreadAttributes& attributes, const Tensor& x) {
  check_correction(run.name(), attributes.correction);
  const ReducedAxes axes(run.name(), attributes.axes, x.ndim());
  const DType dtype = as_float(x.dtype());
  const Tensor squares = square(deviations(x.to(compute_dtype(dtype)), axes));
  const double freedom = degrees_of_freedom(x.shape(), axes, attributes.correction);
  Tensor variance = reduce(ReduceOp::sum, run.name(), squares, axes, attributes.keepdims,
                           squares.dtype(), freedom > 0 ? freedom : 1);
  if (freedom <= 0) variance.fill(std::numeric_limits<double>::quiet_NaN());
  return (root ? sqrt(variance) : variance).to(dtype);
}

Gradients var_gradient(const GradientCall& call, const SpreadAttributes& attributes) {
  return var_backward(call.grad(), call.input(0), attributes.axes, attributes.correction);
}
Gradients std_gradient(const GradientCall& call, const SpreadAttributes& attributes) {
  return std_backward(call.grad(), call.input(0), attributes.axes, attributes.correction,
                      gradient_eps());
}

constexpr auto var_op = define<spread_forward<false>, var_gradient>(
    {.name = "var", .inputs = {"x"}, .reads = {input(0)}});
constexpr auto std_op = define<spread_forward<true>, std_gradient>(
    {.name = "std", .inputs = {"x"}, .reads = {input(0)}});

}  // namespace

Tensor var(const Tensor& x, const Axes& axes, StrictDouble correction, StrictBool keepdims) {
  return dispatch(var_op, {axes, correction, keepdims}, x);
}

Tensor var_backward(const Tensor& grad_output, const Tensor& x, const Axes& axes,
                    StrictDouble correction) {
  check_float("var_backward", "x", x);
  check_correction("var_backward", correction);
  const ReducedAxes reduced("var_backward", axes, x.ndim());
  const Tensor g = gradient_with_kept_axes("var_backward", grad_output, x.shape(), reduced);
  const double freedom = degrees_of_freedom(x.shape(), reduced, correction);
  const double factor = freedom > 0 ? 2 / freedom : std::numeric_limits<double>::quiet_NaN();
  const Tensor wide = x.to(compute_dtype(x.dtype()));
  return multiply(multiply(deviations(wide, reduced), factor), g).to(x.dtype());
}

Tensor std(const Tensor& x, const Axes& axes, StrictDouble correction, StrictBool keepdims) {
  return dispatch(std_op, {axes, correction, keepdims}, x);
}

Tensor std_backward(const Tensor& grad_output, const Tensor& x, const Axes& axes,
                    StrictDouble correction, StrictDouble eps) {
  check_float("std_backward", "x", x);
  check_correction("std_backward", correction);
  const ReducedAxes reduced("std_backward", axes, x.ndim());
  const Tensor g = gradient_with_kept_axes("std_backward", grad_output, x.shape(), reduced);
  const Tensor wide = x.to(compute_dtype(x.dtype()));
  const Tensor deviation = extensor::std(wide, axes, correction, true);
  const Tensor through_root = sqrt_backward(g.to(deviation.dtype()), deviation, eps);
  return var_backward(through_root, wide, axes, correction).to(x.dtype());
}

// ---- truth

namespace {

Tensor count_nonzero_forward(const Run& run, const ReduceAttributes& attributes, const Tensor& x) {
  Tensor once = x;  // without what broadcast_to() repeats
  for (std::int64_t axis = 0; axis < x.ndim(); ++axis) {
    const bool repeats = x.strides()[static_cast<std::size_t>(axis)] == 0 && x.size(axis) > 1;
    if (repeats) once = once.slice(axis, 0, 1);
  }
  const Tensor truth = once.to(DType::bool_).broadcast_to(x.shape());
  return reduce_forward<ReduceOp::sum, as_int64>(run, attributes, truth);
}

constexpr auto all_op =
    define<reduce_forward<ReduceOp::all, as_bool>>({.name = "all", .inputs = {"x"}});
constexpr auto any_op =
    define<reduce_forward<ReduceOp::any, as_bool>>({.name = "any", .inputs = {"x"}});
constexpr auto count_nonzero_op =
    define<count_nonzero_forward>({.name = "count_nonzero", .inputs = {"x"}});

}  // namespace

namespace {

// The truth of real or complex elements.
Tensor truth(const Tensor& x) { return is_complex(x.dtype()) ? x.to(DType::bool_) : x; }

}  // namespace

Tensor all(const Tensor& x, const Axes& axes, StrictBool keepdims) {
  return dispatch(all_op, {axes, keepdims}, truth(x));
}
Tensor any(const Tensor& x, const Axes& axes, StrictBool keepdims) {
  return dispatch(any_op, {axes, keepdims}, truth(x));
}
Tensor count_nonzero(const Tensor& x, const Axes& axes, StrictBool keepdims) {
  return dispatch(count_nonzero_op, {axes, keepdims}, truth(x));
}

constinit const OpList ops::reduction_ops =
    listed<sum_op, mean_op, max_reduce_op, min_reduce_op, argmax_op, argmin_op, prod_op,
           prod_backward_op, var_op, std_op, all_op, any_op, count_nonzero_op>;

}  // namespace extensor
