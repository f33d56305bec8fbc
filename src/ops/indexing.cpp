#include "extensor/indexing.h"

#include "backend/backend.h"
#include "core/check.h"
#include "core/graph.h"
#include "core/make_tensor.h"
#include "extensor/broadcasting.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/manipulation.h"
#include "ops/axis_view.h"
#include "ops/indices.h"
#include "ops/launch.h"
#include "ops/scalar_range.h"

namespace extensor {

namespace {

using backend::IndexCall;
using backend::IndexOp;
using detail::checked_numel;
using detail::message;
using detail::normalize_axis;
using ops::AxisView;
using ops::checked_indices;

std::int64_t rank_of(const Shape& shape) { return static_cast<std::int64_t>(shape.size()); }
std::size_t at(std::int64_t axis) { return static_cast<std::size_t>(axis); }

void check_devices(const char* operation, const Tensor& a, const Tensor& b) {
  const ops::Source pair[] = {a, b};
  ops::common_device(operation, pair);
}

// Everything dense; `view` is that of the tensor with the whole axis.
void run(IndexOp op, const AxisView& view, std::int64_t count, const Tensor& indices,
         const Tensor& source, Tensor& out, const Scalar& factor = 1) {
  IndexCall call{};
  call.op = op;
  call.dtype = out.dtype();
  call.outer = view.outer;
  call.length = view.length;
  call.inner = view.inner;
  call.count = count;
  call.indices = indices.data<std::int64_t>();
  call.source = source.impl().data;
  call.out = out.impl().data;
  call.factor = ops::parameter(factor);
  backend::backend_for(out.device()).index(call);
}

// The dtype in which sums at repeated places are kept.
DType sum_dtype(DType dtype) {
  if (is_floating_point(dtype)) return DType::float64;
  return is_signed_integer(dtype) ? DType::int64 : DType::uint64;
}

// Recorded as a linear function of x that reads indices: backward(g, indices).
template <class Forward, class Backward>
Tensor recorded_with(const char* name, const Forward& forward, Backward backward, const Tensor& x,
                     const Tensor& indices) {
  return detail::record(name, {x}, detail::unrecorded(forward),
                        [backward = std::move(backward), indices = detail::Saved(indices)](
                            const Tensor& g, detail::Node& node) -> detail::Gradients {
                          return backward(g, indices.get(node));
                        });
}

Tensor copy_as(const Tensor& x, DType dtype) {
  return x.dtype() == dtype ? x.clone() : x.to(dtype);
}

// A part of a tensor that starts at its first element.
Tensor leading_part(const Tensor& x, const Shape& shape) {
  Tensor part = x;
  for (std::int64_t d = 0; d < x.ndim(); ++d) part = part.slice(d, 0, shape[at(d)]);
  return part;
}

Shape with_axis(const Shape& shape, std::int64_t axis, std::int64_t length) {
  Shape result = shape;
  result[at(axis)] = length;
  return result;
}

}  // namespace

// ---- take
// ------------------------------------------------------------------------------------------

namespace {

// The shape of x with one axis replaced by the shape of the indices.
Shape taken_shape(const Shape& shape, std::int64_t axis, const Shape& indices) {
  Shape result;
  for (std::int64_t d = 0; d < rank_of(shape); ++d) {
    if (d != axis) {
      result.push_back(shape[at(d)]);
    } else {
      for (std::int64_t size : indices) result.push_back(size);
    }
  }
  return result;
}

}  // namespace

Tensor take(const Tensor& x, const Tensor& indices, std::optional<StrictInt> axis) {
  if (!axis) return take(x.flatten(), indices, 0);
  if (detail::records(x)) {
    return recorded_with(
        "take", [&] { return take(x, indices, axis); },
        [shape = x.shape(), axis](const Tensor& g, const Tensor& indices) {
          return take_backward(g, shape, indices, axis);
        },
        x, indices);
  }
  const std::int64_t along = normalize_axis("take", *axis, x.ndim());
  check_devices("take", x, indices);
  const Tensor checked = checked_indices("take", indices, x.size(along), along);
  Tensor result = detail::make_empty("take", taken_shape(x.shape(), along, indices.shape()),
                                     x.dtype(), x.device());
  run(IndexOp::take_rows, AxisView(x.shape(), along), checked.numel(), checked, x.contiguous(),
      result);
  return result;
}

Tensor take_backward(const Tensor& grad_output, const Shape& input_shape, const Tensor& indices,
                     std::optional<StrictInt> axis) {
  constexpr const char* operation = "take_backward";
  const std::int64_t numel = checked_numel(operation, input_shape);
  if (!axis) return take_backward(grad_output, {numel}, indices, 0).reshape(input_shape);
  if (detail::records(grad_output)) {
    return recorded_with(
        operation, [&] { return take_backward(grad_output, input_shape, indices, axis); },
        [axis](const Tensor& v, const Tensor& indices) { return take(v, indices, axis); },
        grad_output, indices);
  }
  const std::int64_t along = normalize_axis(operation, *axis, rank_of(input_shape));
  check_devices(operation, grad_output, indices);
  ops::check_grad_output(operation, grad_output, taken_shape(input_shape, along, indices.shape()));
  const Tensor checked = checked_indices(operation, indices, input_shape[at(along)], along);
  Tensor result = zeros(input_shape, grad_output.dtype());
  run(IndexOp::add_rows, AxisView(input_shape, along), checked.numel(), checked,
      grad_output.contiguous(), result);
  return result;
}

// ---- an index for every element
// --------------------------------------------------------------------

namespace {

void check_same_rank(const char* operation, const Shape& x, const Tensor& indices) {
  if (x.size() == indices.shape().size()) return;
  throw ShapeError(message(operation, ": x is ", x, " and indices are ", indices.shape(),
                           ", must have the same number of dimensions"));
}

// out[…, j, …] = x[…, indices[…, j, …], …], where both have the same shape but for the axis.
Tensor take_elements(const char* operation, const Tensor& x, const Tensor& checked,
                     std::int64_t axis) {
  Tensor result = detail::make_empty(operation, checked.shape(), x.dtype(), x.device());
  run(IndexOp::take_elements, AxisView(x.shape(), axis), checked.size(axis), checked,
      x.contiguous(), result);
  return result;
}

// The adjoint of take_elements, in the gradient's dtype.
Tensor add_elements(const Tensor& grad_output, const Shape& shape, const Tensor& checked,
                    std::int64_t axis) {
  Tensor sums = zeros(shape, DType::float64);
  run(IndexOp::add_elements, AxisView(shape, axis), checked.size(axis), checked,
      grad_output.to(DType::float64).contiguous(), sums);
  return sums.to(grad_output.dtype());
}

struct AlongAxis {
  std::int64_t axis;
  Shape x, indices;  // both broadcast on all other axes

  AlongAxis(const char* operation, const Shape& shape, const Tensor& given, std::int64_t asked)
      : axis(normalize_axis(operation, asked, rank_of(shape))) {
    check_same_rank(operation, shape, given);
    const Shape others = with_axis(shape, axis, 1),
                given_others = with_axis(given.shape(), axis, 1);
    if (!are_shapes_broadcastable(others, given_others)) {
      throw ShapeError(message(operation, ": x is ", shape, " and indices are ", given.shape(),
                               ", which do not broadcast outside axis ", axis));
    }
    const Shape common = broadcast_shapes(others, given_others);
    x = with_axis(common, axis, shape[at(axis)]);
    indices = with_axis(common, axis, given.size(axis));
  }
};

}  // namespace

Tensor take_along_axis(const Tensor& x, const Tensor& indices, StrictInt axis) {
  constexpr const char* operation = "take_along_axis";
  if (detail::records(x)) {
    return recorded_with(
        operation, [&] { return take_along_axis(x, indices, axis); },
        [shape = x.shape(), axis](const Tensor& g, const Tensor& indices) {
          return take_along_axis_backward(g, shape, indices, axis);
        },
        x, indices);
  }
  const AlongAxis along(operation, x.shape(), indices, axis);
  check_devices(operation, x, indices);
  const Tensor checked = checked_indices(operation, indices, x.size(along.axis), along.axis);
  return take_elements(operation, x.broadcast_to(along.x),
                       checked.broadcast_to(along.indices).contiguous(), along.axis);
}

Tensor take_along_axis_backward(const Tensor& grad_output, const Shape& input_shape,
                                const Tensor& indices, StrictInt axis) {
  constexpr const char* operation = "take_along_axis_backward";
  if (detail::records(grad_output)) {
    return recorded_with(
        operation,
        [&] { return take_along_axis_backward(grad_output, input_shape, indices, axis); },
        [axis](const Tensor& v, const Tensor& indices) {
          return take_along_axis(v, indices, axis);
        },
        grad_output, indices);
  }
  checked_numel(operation, input_shape);
  const AlongAxis along(operation, input_shape, indices, axis);
  check_devices(operation, grad_output, indices);
  ops::check_grad_output(operation, grad_output, along.indices);
  const Tensor checked =
      checked_indices(operation, indices, input_shape[at(along.axis)], along.axis);
  // Rounded to the gradient's dtype at the end, after the sum over what was broadcast.
  const Tensor gradient =
      add_elements(grad_output.to(DType::float64), along.x,
                   checked.broadcast_to(along.indices).contiguous(), along.axis);
  return reduce_broadcast_dims(gradient, input_shape).to(grad_output.dtype());
}

namespace {

// ShapeError unless `part` is at most as long as `whole` on every axis but `except`.
void check_covers(const char* operation, const char* name, const Shape& whole, const Tensor& part,
                  std::int64_t except) {
  bool fits = rank_of(whole) == part.ndim();
  for (std::int64_t d = 0; fits && d < part.ndim(); ++d) {
    fits = d == except || part.size(d) <= whole[at(d)];
  }
  if (fits) return;
  throw ShapeError(message(operation, ": indices are ", part.shape(), " and ", name, " is ", whole,
                           ", which must have the same rank and be as long at least",
                           except < 0 ? "" : " outside the axis"));
}

// x's part that indices shorter than it can reach.
Shape reached_shape(const Shape& shape, const Tensor& indices, std::int64_t axis) {
  return with_axis(indices.shape(), axis, shape[at(axis)]);
}

}  // namespace

Tensor gather(const Tensor& x, StrictInt axis, const Tensor& indices) {
  if (detail::records(x)) {
    return recorded_with(
        "gather", [&] { return gather(x, axis, indices); },
        [shape = x.shape(), axis](const Tensor& g, const Tensor& indices) {
          return gather_backward(g, shape, axis, indices);
        },
        x, indices);
  }
  const std::int64_t along = normalize_axis("gather", axis, x.ndim());
  check_covers("gather", "x", x.shape(), indices, along);
  check_devices("gather", x, indices);
  const Tensor checked = checked_indices("gather", indices, x.size(along), along);
  return take_elements("gather", leading_part(x, reached_shape(x.shape(), indices, along)), checked,
                       along);
}

Tensor gather_backward(const Tensor& grad_output, const Shape& input_shape, StrictInt axis,
                       const Tensor& indices) {
  constexpr const char* operation = "gather_backward";
  if (detail::records(grad_output)) {
    return recorded_with(
        operation, [&] { return gather_backward(grad_output, input_shape, axis, indices); },
        [axis](const Tensor& v, const Tensor& indices) { return gather(v, axis, indices); },
        grad_output, indices);
  }
  checked_numel(operation, input_shape);
  const std::int64_t along = normalize_axis(operation, axis, rank_of(input_shape));
  check_covers(operation, "x", input_shape, indices, along);
  check_devices(operation, grad_output, indices);
  ops::check_grad_output(operation, grad_output, indices.shape());
  const Tensor checked = checked_indices(operation, indices, input_shape[at(along)], along);
  const Shape reached = reached_shape(input_shape, indices, along);
  Tensor gradient = add_elements(grad_output, reached, checked, along);
  if (reached == input_shape) return gradient;
  Tensor result = zeros(input_shape, grad_output.dtype());
  leading_part(result, reached).copy_from(gradient);
  return result;
}

// ---- scatter
// ---------------------------------------------------------------------------------------

namespace {

void check_scatter(const char* operation, const Shape& x, std::int64_t axis, const Tensor& indices,
                   const Shape& source) {
  check_covers(operation, "x", x, indices, axis);
  check_covers(operation, "source", source, indices, -1);
}

// A copy of x as `dtype` with the source put or added at the checked indices.
Tensor scattered(IndexOp op, const Tensor& x, DType dtype, std::int64_t axis, const Tensor& checked,
                 const Tensor& source) {
  Tensor result = copy_as(x, dtype);
  const Shape reached = reached_shape(x.shape(), checked, axis);
  const Tensor values = leading_part(source, checked.shape()).to(dtype).contiguous();
  Tensor part = leading_part(result, reached);
  Tensor dense = part.contiguous();
  run(op, AxisView(reached, axis), checked.size(axis), checked, values, dense);
  if (!part.is_contiguous()) part.copy_from(dense);
  return result;
}

// What indices shorter than the source did not read has no gradient.
Tensor extended_to(const Shape& shape, const Tensor& gradient) {
  if (gradient.shape() == shape) return gradient;
  Padding widths;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    widths.push_back({0, shape[d] - gradient.shape()[d]});
  }
  return pad(gradient, widths);
}

Tensor scatter_gradient_x(const Tensor& g, std::int64_t axis, const Tensor& indices) {
  return scatter(g, axis, indices, zeros({}, g.dtype()).broadcast_to(indices.shape()));
}

// Of the sources that went to one place only the last has a gradient: number them, scatter the
// numbers, and see whose number is still there.
Tensor scatter_gradient_source(const Tensor& g, std::int64_t axis, const Tensor& indices,
                               const Shape& source_shape) {
  const Tensor numbers = arange(indices.numel()).reshape(indices.shape());
  const Tensor left = scatter(zeros(g.shape(), DType::int64), axis, indices, numbers);
  const Tensor survived = equal(gather(left, axis, indices), numbers);
  return extended_to(source_shape, where(survived, gather(g, axis, indices), zeros({}, g.dtype())));
}

Tensor scatter_add_gradient_source(const Tensor& g, std::int64_t axis, const Tensor& indices,
                                   const Shape& source_shape) {
  return extended_to(source_shape, gather(g, axis, indices));
}

// Recorded as a function of x and a source; of_x(g, indices) and of_source(g, indices) give their
// gradients.
template <class Forward, class OfX, class OfSource>
Tensor recorded_with_source(const char* name, const Forward& forward, OfX of_x, OfSource of_source,
                            const Tensor& x, const Tensor& source, const Tensor& indices) {
  return detail::record(
      name, {x, source}, detail::unrecorded(forward),
      [of_x, of_source, x_dtype = x.dtype(), source_dtype = source.dtype(),
       indices = detail::Saved(indices)](const Tensor& g, detail::Node& node) -> detail::Gradients {
        const Tensor& read = indices.get(node);
        return {node.needs(0) ? of_x(g, read).to(x_dtype) : Tensor(),
                node.needs(1) ? of_source(g, read).to(source_dtype) : Tensor()};
      });
}

}  // namespace

Tensor scatter(const Tensor& x, StrictInt axis, const Tensor& indices, const Tensor& source) {
  if (detail::records(x, source)) {
    return recorded_with_source(
        "scatter", [&] { return scatter(x, axis, indices, source); },
        [axis](const Tensor& g, const Tensor& indices) {
          return scatter_gradient_x(g, axis, indices);
        },
        [axis, shape = source.shape()](const Tensor& g, const Tensor& indices) {
          return scatter_gradient_source(g, axis, indices, shape);
        },
        x, source, indices);
  }
  const std::int64_t along = normalize_axis("scatter", axis, x.ndim());
  check_scatter("scatter", x.shape(), along, indices, source.shape());
  check_devices("scatter", x, indices);
  check_devices("scatter", x, source);
  const DType dtype = promote_types(x.dtype(), source.dtype(), "scatter");
  const Tensor checked = checked_indices("scatter", indices, x.size(along), along);
  return scattered(IndexOp::put_elements, x, dtype, along, checked, source);
}

std::pair<Tensor, Tensor> scatter_backward(const Tensor& grad_output, StrictInt axis,
                                           const Tensor& indices, const Shape& source_shape) {
  constexpr const char* operation = "scatter_backward";
  ops::check_float(operation, "grad_output", grad_output);
  const std::int64_t along = normalize_axis(operation, axis, grad_output.ndim());
  checked_numel(operation, source_shape);
  check_scatter(operation, grad_output.shape(), along, indices, source_shape);
  check_devices(operation, grad_output, indices);
  const Tensor checked = checked_indices(operation, indices, grad_output.size(along), along);
  return {scatter_gradient_x(grad_output, along, checked),
          scatter_gradient_source(grad_output, along, checked, source_shape)};
}

Tensor scatter_add(const Tensor& x, StrictInt axis, const Tensor& indices, const Tensor& source) {
  if (detail::records(x, source)) {
    return recorded_with_source(
        "scatter_add", [&] { return scatter_add(x, axis, indices, source); },
        [](const Tensor& g, const Tensor&) { return g; },
        [axis, shape = source.shape()](const Tensor& g, const Tensor& indices) {
          return scatter_add_gradient_source(g, axis, indices, shape);
        },
        x, source, indices);
  }
  const std::int64_t along = normalize_axis("scatter_add", axis, x.ndim());
  check_scatter("scatter_add", x.shape(), along, indices, source.shape());
  check_devices("scatter_add", x, indices);
  check_devices("scatter_add", x, source);
  const DType dtype = promote_types(x.dtype(), source.dtype(), "scatter_add");
  const Tensor checked = checked_indices("scatter_add", indices, x.size(along), along);
  return scattered(IndexOp::add_elements, x, sum_dtype(dtype), along, checked, source).to(dtype);
}

std::pair<Tensor, Tensor> scatter_add_backward(const Tensor& grad_output, StrictInt axis,
                                               const Tensor& indices, const Shape& source_shape) {
  constexpr const char* operation = "scatter_add_backward";
  ops::check_float(operation, "grad_output", grad_output);
  const std::int64_t along = normalize_axis(operation, axis, grad_output.ndim());
  checked_numel(operation, source_shape);
  check_scatter(operation, grad_output.shape(), along, indices, source_shape);
  return {grad_output, scatter_add_gradient_source(grad_output, along, indices, source_shape)};
}

// ---- index_add
// -------------------------------------------------------------------------------------

namespace {

void check_index_list(const char* operation, const Tensor& indices) {
  if (indices.ndim() == 1) return;
  throw ShapeError(
      message(operation, ": indices are ", indices.shape(), ", must have one dimension"));
}

Tensor index_add_gradient_source(const Tensor& g, std::int64_t axis, const Tensor& indices,
                                 const Scalar& alpha) {
  return multiply(take(g, indices, axis), alpha);
}

}  // namespace

Tensor index_add(const Tensor& x, StrictInt axis, const Tensor& indices, const Tensor& source,
                 const Scalar& alpha) {
  constexpr const char* operation = "index_add";
  if (detail::records(x, source)) {
    return recorded_with_source(
        operation, [&] { return index_add(x, axis, indices, source, alpha); },
        [](const Tensor& g, const Tensor&) { return g; },
        [axis, alpha](const Tensor& g, const Tensor& indices) {
          return index_add_gradient_source(g, axis, indices, alpha);
        },
        x, source, indices);
  }
  const std::int64_t along = normalize_axis(operation, axis, x.ndim());
  check_index_list(operation, indices);
  const Shape expected = with_axis(x.shape(), along, indices.numel());
  if (!(source.shape() == expected)) {
    throw ShapeError(message(operation, ": source is ", source.shape(), ", must be ", expected,
                             ": x is ", x.shape(), " and axis ", along, " has ", indices.numel(),
                             " indices"));
  }
  check_devices(operation, x, indices);
  check_devices(operation, x, source);
  const DType dtype = promote_types(x.dtype(), source.dtype(), operation);
  if (!is_floating_point(dtype)) {
    if (alpha.is_floating()) {
      throw DTypeError(message(operation, ": alpha is ", alpha, ", must be an integer for a result",
                               " of ", dtype));
    }
    if (dtype == DType::bool_ && alpha.as_double() < 0) {
      throw ValueError(
          message(operation, ": alpha is ", alpha, ", must be 0 or more for a result", " of bool"));
    }
    ops::check_scalar_fits(operation, alpha, dtype);
  }
  const Tensor checked = checked_indices(operation, indices, x.size(along), along);
  Tensor result = copy_as(x, dtype);
  run(IndexOp::add_rows, AxisView(x.shape(), along), checked.numel(), checked,
      source.to(dtype).contiguous(), result, alpha);
  return result;
}

std::pair<Tensor, Tensor> index_add_backward(const Tensor& grad_output, StrictInt axis,
                                             const Tensor& indices, const Scalar& alpha) {
  constexpr const char* operation = "index_add_backward";
  ops::check_float(operation, "grad_output", grad_output);
  normalize_axis(operation, axis, grad_output.ndim());
  check_index_list(operation, indices);
  return {grad_output, index_add_gradient_source(grad_output, axis, indices, alpha)};
}

}  // namespace extensor
