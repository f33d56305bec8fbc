// Selection of elements by masks, positions of nonzero elements, and one_hot.
#include <algorithm>

#include "core/check.h"
#include "extensor/broadcasting.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/indexing.h"
#include "ops/checked_indices.h"
#include "ops/launch.h"
#include "ops/scalar_range.h"

namespace extensor {

namespace {

using detail::message;
using ops::true_positions;

// Checks that the mask covers the leading axes of `shape`, and returns the remaining axes.
Shape unmasked_axes(const char* operation, const Shape& shape, const Tensor& mask) {
  ops::check_mask(operation, mask);
  const std::size_t covered = mask.shape().size();
  bool fits = covered <= shape.size();
  for (std::size_t d = 0; fits && d < covered; ++d) fits = mask.shape()[d] == shape[d];
  if (!fits) {
    throw ShapeError(message(operation, ": mask is ", mask.shape(), " and x is ", shape,
                             ", whose leading dimensions it must have"));
  }
  Shape rest;
  for (std::size_t d = covered; d < shape.size(); ++d) rest.push_back(shape[d]);
  return rest;
}

Shape with_leading(std::int64_t length, const Shape& rest) {
  Shape shape = rest;
  shape.insert(0, length);
  return shape;
}

}  // namespace

// ---- masks

namespace {

// Whether x and a mask of its rank broadcast to a common shape that either of them lacks.
bool broadcasts(const Shape& x, const Tensor& mask) {
  return mask.defined() && mask.shape().size() == x.size() && !(mask.shape() == x) &&
         are_shapes_broadcastable(x, mask.shape());
}

}  // namespace

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  if (broadcasts(x.shape(), mask)) {
    const Shape shape = broadcast_shapes(x.shape(), mask.shape());
    return masked_select(x.broadcast_to(shape), mask.broadcast_to(shape));
  }
  const Shape rest = unmasked_axes("masked_select", x.shape(), mask);
  const ops::Source pair[] = {x, mask};
  ops::common_device("masked_select", pair);
  const Shape rows = with_leading(mask.numel(), rest);
  detail::checked_numel("masked_select", rows);  // a mask of rank 0 adds an axis
  return take(x.reshape(rows), true_positions("masked_select", mask), 0);
}

Tensor masked_select_backward(const Tensor& grad_output, const Shape& input_shape,
                              const Tensor& mask) {
  constexpr const char* operation = "masked_select_backward";
  if (broadcasts(input_shape, mask)) {
    const Shape shape = broadcast_shapes(input_shape, mask.shape());
    return reduce_broadcast_dims(
        masked_select_backward(grad_output, shape, mask.broadcast_to(shape)), input_shape);
  }
  const Shape rest = unmasked_axes(operation, input_shape, mask);
  const Tensor positions = true_positions(operation, mask);
  ops::check_grad_output(operation, grad_output, with_leading(positions.numel(), rest));
  return take_backward(grad_output, with_leading(mask.numel(), rest), positions, 0)
      .reshape(input_shape);
}

namespace {

void check_mask_broadcasts(const char* operation, const Tensor& mask, const Shape& shape) {
  ops::check_mask(operation, mask);
  if (are_shapes_broadcastable(mask.shape(), shape) &&
      broadcast_shapes(mask.shape(), shape) == shape) {
    return;
  }
  throw ShapeError(message(operation, ": mask is ", mask.shape(),
                           " and does not broadcast to the shape of x, ", shape));
}

Tensor fill_where(const char* operation, const Tensor& x, const Tensor& mask, const Scalar& value) {
  if (value.is_complex()) return where(mask, ops::complex_number(value, x.dtype()), x);
  const ops::Source inputs[] = {mask, ops::Source(value, x.dtype()), x};
  return ops::evaluate(ops::ElementwiseOp::where, operation, ops::compute_dtype(x.dtype()),
                       x.dtype(), inputs);
}

}  // namespace

Tensor masked_fill(const Tensor& x, const Tensor& mask, const Scalar& value) {
  check_mask_broadcasts("masked_fill", mask, x.shape());
  ops::check_scalar_stored("masked_fill", "value", value, x.dtype());
  return fill_where("masked_fill", x, mask, value);
}

Tensor masked_fill_backward(const Tensor& grad_output, const Tensor& mask) {
  ops::check_has_gradient("masked_fill_backward", "grad_output", grad_output);
  check_mask_broadcasts("masked_fill_backward", mask, grad_output.shape());
  return fill_where("masked_fill_backward", grad_output, mask, 0);
}

// ---- positions

std::vector<Tensor> nonzero(const Tensor& x) {
  const Tensor at_least_1d = x.ndim() == 0 ? x.reshape({1}) : x;
  Tensor rest = true_positions("nonzero", at_least_1d.to(DType::bool_));
  const Shape& shape = at_least_1d.shape();
  std::vector<Tensor> coordinates(shape.size());
  for (std::size_t d = shape.size(); d-- > 1;) {
    const std::int64_t size = std::max<std::int64_t>(1, shape[d]);  // avoids a division by 0
    coordinates[d] = modulo(rest, size);
    rest = floor_divide(rest, size);
  }
  coordinates[0] = rest;
  return coordinates;
}

Tensor one_hot(const Tensor& indices, StrictInt classes, DType dtype) {
  if (classes < 0) {
    throw ValueError(message("one_hot: classes is ", classes, ", must be 0 or more"));
  }
  const Tensor checked =
      ops::checked_indices("one_hot", indices, {.size = classes, .axis = indices.ndim()});
  Shape shape = indices.shape();
  shape.push_back(classes);
  if (detail::checked_numel("one_hot", shape) == 0) return zeros(shape, {dtype, checked.device()});
  return equal(checked.unsqueeze(-1), arange(classes, checked.device())).to(dtype);
}

}  // namespace extensor
