#include "extensor/indexing.h"

#include "backend/backend.h"
#include "core/check.h"
#include "extensor/broadcasting.h"
#include "extensor/complex.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/manipulation.h"
#include "ops/axis_view.h"
#include "ops/checked_indices.h"
#include "ops/launch.h"
#include "ops/registry.h"
#include "ops/scalar_range.h"
#include "ops/scatter.h"

namespace extensor {

namespace {

using backend::IndexCall;
using backend::IndexOp;
using detail::checked_numel;
using detail::message;
using detail::normalize_axis;
using namespace ops;

// The attributes of a backward op of a function that takes elements of x along an axis.
struct TakenFrom {
  Shape shape;  // shape of x
  std::int64_t axis;
};

constexpr OpFacts taking(const char* name) {
  return {.name = name,
          .inputs = {"x", "indices"},
          .reads = {input(1) | shape(), no_gradient},
          .complex = true};
}
constexpr OpFacts taking_backward(const char* name) {
  return {.name = name,
          .inputs = {"grad_output", "indices"},
          .reads = {input(1), no_gradient},
          .complex = true};
}

template <const auto& backward_op>
Gradients taking_gradient(const GradientCall& call, const AxisAttribute& attributes) {
  return dispatch(backward_op, {call.shape(), attributes.axis}, call.grad(), call.input(1));
}

// All tensors are dense; `view` describes the tensor with the whole axis.
void launch_index(IndexOp op, const AxisView& view, std::int64_t count, const Tensor& indices,
                  const Tensor& source, Tensor& out, const Scalar& factor = 1) {
  IndexCall call{};
  call.op = op;
  call.dtype = out.dtype();
  call.outer = view.outer;
  call.length = view.length;
  call.inner = view.inner;
  call.count = count;
  call.indices = detail::kernel_pointer<std::int64_t>(indices);
  call.source = detail::dense_data(source);
  call.out = detail::dense_data(out);
  call.factor = parameter(factor);
  if (is_complex(call.dtype)) {
    // Rows of complex numbers are rows of their parts; single elements move whole.
    if (op == IndexOp::take_rows || op == IndexOp::add_rows) {
      call.dtype = real_dtype(call.dtype);
      call.inner *= 2;
    } else if (op == IndexOp::take_elements || op == IndexOp::put_elements) {
      check_complex_device("index", call.dtype, out.device());
    } else {
      check_real("index", "x", out);
    }
  }
  backend::backend_for(out.device()).index(call);
}

// A dense copy of x in separate memory.
Tensor copy_as(const Tensor& x, DType dtype) {
  return x.dtype() == dtype ? x.clone(MemoryFormat::contiguous) : x.to(dtype).contiguous();
}

// The part of a tensor that starts at its first element.
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

Tensor take_forward(const Run& run, const AxisAttribute& attributes, const Tensor& x,
                    const Tensor& indices) {
  const std::int64_t axis = normalize_axis(run.name(), attributes.axis, x.ndim());
  const Tensor checked = checked_indices(run.name(), indices, along_axis(x.shape(), axis));
  Tensor taken = run.empty(taken_shape(x.shape(), axis, indices.shape()), x.dtype());
  launch_index(IndexOp::take_rows, AxisView(x.shape(), axis), checked.numel(), checked,
               x.contiguous(), taken);
  return taken;
}

Tensor take_backward_forward(const Run& run, const TakenFrom& from, const Tensor& grad_output,
                             const Tensor& indices) {
  const std::int64_t axis = normalize_axis(run.name(), from.axis, rank_of(from.shape));
  check_grad_output(run.name(), grad_output, taken_shape(from.shape, axis, indices.shape()));
  const Tensor checked = checked_indices(run.name(), indices, along_axis(from.shape, axis));
  Tensor sums = zeros(from.shape, {grad_output.dtype(), grad_output.device()});
  launch_index(IndexOp::add_rows, AxisView(from.shape, axis), checked.numel(), checked,
               grad_output.contiguous(), sums);
  return sums;
}

Gradients take_backward_gradient(const GradientCall& call, const TakenFrom& from) {
  return take(call.grad(), call.input(1), from.axis);
}

constexpr auto take_backward_op =
    define<take_backward_forward, take_backward_gradient>(taking_backward("take_backward"));
constexpr auto take_op = define<take_forward, taking_gradient<take_backward_op>>(taking("take"));

}  // namespace

Tensor take(const Tensor& x, const Tensor& indices, std::optional<StrictInt> axis) {
  if (!axis) return take(x.flatten(), indices, 0);
  return dispatch(take_op, {*axis}, x, indices);
}

Tensor take_backward(const Tensor& grad_output, const Shape& input_shape, const Tensor& indices,
                     std::optional<StrictInt> axis) {
  const std::int64_t numel = checked_numel("take_backward", input_shape);
  if (!axis) return take_backward(grad_output, {numel}, indices, 0).reshape(input_shape);
  return dispatch(take_backward_op, {input_shape, *axis}, grad_output, indices);
}

// ---- an index for every element

namespace {

void check_same_rank(const char* operation, const Shape& x, const Tensor& indices) {
  if (x.size() == indices.shape().size()) return;
  throw ShapeError(message(operation, ": x is ", x, " and indices are ", indices.shape(),
                           ", must have the same number of dimensions"));
}

// out[…, j, …] = x[…, indices[…, j, …], …], where both have the same shape except along the axis.
Tensor take_elements(const Run& run, const Tensor& x, const Tensor& checked, std::int64_t axis) {
  Tensor taken = run.empty(checked.shape(), x.dtype());
  launch_index(IndexOp::take_elements, AxisView(x.shape(), axis), checked.size(axis), checked,
               x.contiguous(), taken);
  return taken;
}

// The adjoint of take_elements, in the dtype of the gradient.
Tensor add_elements(const Tensor& grad_output, const Shape& shape, const Tensor& checked,
                    std::int64_t axis) {
  if (is_complex(grad_output.dtype())) {
    return complex(add_elements(real(grad_output), shape, checked, axis),
                   add_elements(imag(grad_output), shape, checked, axis));
  }
  if (checked.size(axis) == 1) {  // nothing to add
    Tensor whole = zeros(shape, {grad_output.dtype(), grad_output.device()});
    launch_index(IndexOp::put_elements, AxisView(shape, axis), 1, checked, grad_output.contiguous(),
                 whole);
    return whole;
  }
  Tensor sums = zeros(shape, {DType::float64, grad_output.device()});
  launch_index(IndexOp::add_elements, AxisView(shape, axis), checked.size(axis), checked,
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

Tensor take_along_axis_forward(const Run& run, const AxisAttribute& attributes, const Tensor& x,
                               const Tensor& indices) {
  const AlongAxis along(run.name(), x.shape(), indices, attributes.axis);
  const Tensor checked = checked_indices(run.name(), indices, along_axis(x.shape(), along.axis));
  return take_elements(run, x.broadcast_to(along.x),
                       checked.broadcast_to(along.indices).contiguous(), along.axis);
}

Tensor take_along_axis_backward_forward(const Run& run, const TakenFrom& from,
                                        const Tensor& grad_output, const Tensor& indices) {
  checked_numel(run.name(), from.shape);
  const AlongAxis along(run.name(), from.shape, indices, from.axis);
  check_grad_output(run.name(), grad_output, along.indices);
  const Tensor checked = checked_indices(run.name(), indices, along_axis(from.shape, along.axis));
  // Round to the dtype of the gradient after the sum over broadcast dimensions.
  const DType wide = is_complex(grad_output.dtype()) ? DType::complex128 : DType::float64;
  const Tensor sums = add_elements(grad_output.to(wide), along.x,
                                   checked.broadcast_to(along.indices).contiguous(), along.axis);
  return reduce_broadcast_dims(sums, from.shape).to(grad_output.dtype());
}

Gradients take_along_axis_backward_gradient(const GradientCall& call, const TakenFrom& from) {
  return take_along_axis(call.grad(), call.input(1), from.axis);
}

constexpr auto take_along_axis_backward_op =
    define<take_along_axis_backward_forward, take_along_axis_backward_gradient>(
        taking_backward("take_along_axis_backward"));
constexpr auto take_along_axis_op =
    define<take_along_axis_forward, taking_gradient<take_along_axis_backward_op>>(
        taking("take_along_axis"));

}  // namespace

Tensor take_along_axis(const Tensor& x, const Tensor& indices, StrictInt axis) {
  return dispatch(take_along_axis_op, {axis}, x, indices);
}

Tensor take_along_axis_backward(const Tensor& grad_output, const Shape& input_shape,
                                const Tensor& indices, StrictInt axis) {
  return dispatch(take_along_axis_backward_op, {input_shape, axis}, grad_output, indices);
}

namespace {

// Throws ShapeError unless `part` is at most as long as `whole` on every axis except `except`.
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

// The shape of the part of x that shorter indices can reach.
Shape reached_shape(const Shape& shape, const Tensor& indices, std::int64_t axis) {
  return with_axis(indices.shape(), axis, shape[at(axis)]);
}

Tensor gather_forward(const Run& run, const AxisAttribute& attributes, const Tensor& x,
                      const Tensor& indices) {
  const std::int64_t axis = normalize_axis(run.name(), attributes.axis, x.ndim());
  check_covers(run.name(), "x", x.shape(), indices, axis);
  const Tensor checked = checked_indices(run.name(), indices, along_axis(x.shape(), axis));
  return take_elements(run, leading_part(x, reached_shape(x.shape(), indices, axis)), checked,
                       axis);
}

Tensor gather_backward_forward(const Run& run, const TakenFrom& from, const Tensor& grad_output,
                               const Tensor& indices) {
  checked_numel(run.name(), from.shape);
  const std::int64_t axis = normalize_axis(run.name(), from.axis, rank_of(from.shape));
  check_covers(run.name(), "x", from.shape, indices, axis);
  check_grad_output(run.name(), grad_output, indices.shape());
  const Tensor checked = checked_indices(run.name(), indices, along_axis(from.shape, axis));
  const Shape reached = reached_shape(from.shape, indices, axis);
  Tensor sums = add_elements(grad_output, reached, checked, axis);
  if (reached == from.shape) return sums;
  Tensor whole = zeros(from.shape, {grad_output.dtype(), grad_output.device()});
  leading_part(whole, reached).copy_from(sums);
  return whole;
}

Gradients gather_backward_gradient(const GradientCall& call, const TakenFrom& from) {
  return gather(call.grad(), from.axis, call.input(1));
}

constexpr auto gather_backward_op =
    define<gather_backward_forward, gather_backward_gradient>(taking_backward("gather_backward"));
constexpr auto gather_op =
    define<gather_forward, taking_gradient<gather_backward_op>>(taking("gather"));

}  // namespace

Tensor gather(const Tensor& x, StrictInt axis, const Tensor& indices) {
  return dispatch(gather_op, {axis}, x, indices);
}

Tensor gather_backward(const Tensor& grad_output, const Shape& input_shape, StrictInt axis,
                       const Tensor& indices) {
  return dispatch(gather_backward_op, {input_shape, axis}, grad_output, indices);
}

// ---- scatter

namespace {

// The checked axis and indices of a scatter.
struct Places {
  std::int64_t axis;
  Tensor indices;

  Places(const char* operation, const Shape& x, std::int64_t asked, const Tensor& given,
         const Shape& source)
      : axis(normalize_axis(operation, asked, rank_of(x))) {
    check_covers(operation, "x", x, given, axis);
    check_covers(operation, "source", source, given, -1);
    indices = checked_indices(operation, given, along_axis(x, axis));
  }
};

// A copy of x as `dtype`, with the source written or added at the places.
Tensor scattered(IndexOp op, const Tensor& x, DType dtype, const Places& places,
                 const Tensor& source) {
  const auto& [axis, indices] = places;
  Tensor whole = copy_as(x, dtype);
  const Shape reached = reached_shape(x.shape(), indices, axis);
  const Tensor values = leading_part(source, indices.shape()).to(dtype).contiguous();
  Tensor part = leading_part(whole, reached);
  Tensor dense = part.contiguous();
  launch_index(op, AxisView(reached, axis), indices.size(axis), indices, values, dense);
  if (!part.is_contiguous()) part.copy_from(dense);
  return whole;
}

Tensor scatter_gradient_x(const Tensor& g, std::int64_t axis, const Tensor& indices) {
  return scatter(g, axis, indices,
                 zeros({}, {g.dtype(), g.device()}).broadcast_to(indices.shape()));
}

// If several sources go to one place, only the last one has a gradient. To find it, number the
// sources, scatter the numbers, and check which ones survive.
Tensor scatter_gradient_source(const Tensor& g, std::int64_t axis, const Tensor& indices,
                               const Shape& source_shape) {
  const Tensor numbers = arange(indices.numel(), indices.device()).reshape(indices.shape());
  const Tensor left = scatter(zeros_like(g, DType::int64), axis, indices, numbers);
  const Tensor survived = equal(gather(left, axis, indices), numbers);
  return extended_to(source_shape,
                     where(survived, gather(g, axis, indices), zeros({}, {g.dtype(), cpu_device})));
}

template <bool adds>
Tensor scatter_forward(const Run& run, const AxisAttribute& attributes, const Tensor& x,
                       const Tensor& indices, const Tensor& source) {
  const Places places(run.name(), x.shape(), attributes.axis, indices, source.shape());
  const DType dtype = promote_types(x.dtype(), source.dtype(), run.name());
  if (!adds) return scattered(IndexOp::put_elements, x, dtype, places, source);
  if (is_complex(dtype)) {
    const Tensor to = x.to(dtype), from = source.to(dtype);
    const DType part = real_dtype(dtype);
    const auto sums = [&](const Tensor& into, const Tensor& added) {
      return scattered(IndexOp::add_elements, into, DType::float64, places, added).to(part);
    };
    return complex(sums(real(to), real(from)), sums(imag(to), imag(from)));
  }
  return scattered(IndexOp::add_elements, x, sum_dtype(dtype), places, source).to(dtype);
}

// The gradients of x, of the indices (none) and of the source.
template <bool adds>
Gradients scatter_gradient(const GradientCall& call, const AxisAttribute& attributes) {
  Gradients gradients(3);
  const Tensor& g = call.grad();
  const std::int64_t axis = attributes.axis;
  if (adds) {
    gradients[0] = g;
    if (call.needs(2)) {
      gradients[2] = extended_to(call.shape(2), gather(g, axis, call.input(1)));
    }
  } else {
    if (call.needs(0)) gradients[0] = scatter_gradient_x(g, axis, call.input(1));
    if (call.needs(2)) {
      gradients[2] = scatter_gradient_source(g, axis, call.input(1), call.shape(2));
    }
  }
  return gradients;
}

constexpr auto scatter_op = define<scatter_forward<false>, scatter_gradient<false>>(
    {.name = "scatter",
     .inputs = {"x", "indices", "source"},
     .reads = {input(1), no_gradient, input(1) | shape(2)},
     .complex = true});
constexpr auto scatter_add_op = define<scatter_forward<true>, scatter_gradient<true>>(
    {.name = "scatter_add",
     .inputs = {"x", "indices", "source"},
     .reads = {nothing, no_gradient, input(1) | shape(2)},
     .complex = true});

// The places from the arguments of a scatter's backward.
Places checked_places(const char* operation, const Tensor& grad_output, std::int64_t axis,
                      const Tensor& indices, const Shape& source_shape) {
  check_has_gradient(operation, "grad_output", grad_output);
  checked_numel(operation, source_shape);
  const Source operands[] = {grad_output, indices};
  common_device(operation, operands);
  return {operation, grad_output.shape(), axis, indices, source_shape};
}

}  // namespace

Tensor scatter(const Tensor& x, StrictInt axis, const Tensor& indices, const Tensor& source) {
  return dispatch(scatter_op, {axis}, x, indices, source);
}

std::pair<Tensor, Tensor> scatter_backward(const Tensor& grad_output, StrictInt axis,
                                           const Tensor& indices, const Shape& source_shape) {
  const Places places =
      checked_places("scatter_backward", grad_output, axis, indices, source_shape);
  return {scatter_gradient_x(grad_output, places.axis, places.indices),
          scatter_gradient_source(grad_output, places.axis, places.indices, source_shape)};
}

Tensor scatter_add(const Tensor& x, StrictInt axis, const Tensor& indices, const Tensor& source) {
  return dispatch(scatter_add_op, {axis}, x, indices, source);
}

std::pair<Tensor, Tensor> scatter_add_backward(const Tensor& grad_output, StrictInt axis,
                                               const Tensor& indices, const Shape& source_shape) {
  const Places places =
      checked_places("scatter_add_backward", grad_output, axis, indices, source_shape);
  return {grad_output, extended_to(source_shape, gather(grad_output, places.axis, places.indices))};
}

DType ops::sum_dtype(DType dtype) {
  if (is_floating_point(dtype)) return DType::float64;
  return is_signed_integer(dtype) ? DType::int64 : DType::uint64;
}

Tensor ops::extended_to(const Shape& shape, const Tensor& gradient) {
  if (gradient.shape() == shape) return gradient;
  Padding widths;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    widths.push_back({0, shape[d] - gradient.shape()[d]});
  }
  return pad(gradient, widths);
}

Tensor ops::scattered_by(const char* operation, IndexOp op, const Tensor& x, DType dtype,
                         std::int64_t axis, const Tensor& indices, const Tensor& source) {
  return scattered(op, x, dtype, Places(operation, x.shape(), axis, indices, source.shape()),
                   source);
}

// ---- index_add

namespace {

void check_index_list(const char* operation, const Tensor& indices) {
  if (indices.ndim() == 1) return;
  throw ShapeError(
      message(operation, ": indices are ", indices.shape(), ", must have one dimension"));
}

struct IndexAddAttributes {
  std::int64_t axis;
  Scalar alpha;
};

Tensor index_add_forward(const Run& run, const IndexAddAttributes& attributes, const Tensor& x,
                         const Tensor& indices, const Tensor& source) {
  const auto& [asked, alpha] = attributes;
  const std::int64_t axis = normalize_axis(run.name(), asked, x.ndim());
  check_index_list(run.name(), indices);
  const Shape expected = with_axis(x.shape(), axis, indices.numel());
  if (!(source.shape() == expected)) {
    throw ShapeError(message(run.name(), ": source is ", source.shape(), ", must be ", expected,
                             ": x is ", x.shape(), " and axis ", axis, " has ", indices.numel(),
                             " indices"));
  }
  const DType dtype = promote_types(x.dtype(), source.dtype(), run.name());
  if (alpha.is_complex()) {
    throw DTypeError(message(run.name(), ": alpha is ", alpha, ", must be a real number"));
  }
  if (!is_differentiable(dtype)) {
    if (alpha.is_floating()) {
      throw DTypeError(message(run.name(), ": alpha is ", alpha,
                               ", must be an integer for a result of ", dtype));
    }
    if (dtype == DType::bool_ && alpha.as_double() < 0) {
      throw ValueError(
          message(run.name(), ": alpha is ", alpha, ", must be 0 or more for a result of bool"));
    }
    check_scalar_fits(run.name(), alpha, dtype);
  }
  const Tensor checked = checked_indices(run.name(), indices, along_axis(x.shape(), axis));
  Tensor sums = copy_as(x, dtype);
  launch_index(IndexOp::add_rows, AxisView(x.shape(), axis), checked.numel(), checked,
               source.to(dtype).contiguous(), sums, alpha);
  return sums;
}

Gradients index_add_gradient(const GradientCall& call, const IndexAddAttributes& attributes) {
  Gradients gradients(3);
  gradients[0] = call.grad();
  if (call.needs(2)) {
    gradients[2] =
        index_add_backward(call.grad(), attributes.axis, call.input(1), attributes.alpha).second;
  }
  return gradients;
}

constexpr auto index_add_op =
    define<index_add_forward, index_add_gradient>({.name = "index_add",
                                                   .inputs = {"x", "indices", "source"},
                                                   .reads = {nothing, no_gradient, input(1)},
                                                   .complex = true});

}  // namespace

Tensor index_add(const Tensor& x, StrictInt axis, const Tensor& indices, const Tensor& source,
                 const Scalar& alpha) {
  return dispatch(index_add_op, {axis, alpha}, x, indices, source);
}

std::pair<Tensor, Tensor> index_add_backward(const Tensor& grad_output, StrictInt axis,
                                             const Tensor& indices, const Scalar& alpha) {
  constexpr const char* operation = "index_add_backward";
  check_has_gradient(operation, "grad_output", grad_output);
  normalize_axis(operation, axis, grad_output.ndim());
  check_index_list(operation, indices);
  return {grad_output, multiply(take(grad_output, indices, axis), alpha)};
}

constinit const OpList ops::indexing_ops =
    listed<take_op, take_backward_op, take_along_axis_op, take_along_axis_backward_op, gather_op,
           gather_backward_op, scatter_op, scatter_add_op, index_add_op>;

}  // namespace extensor
