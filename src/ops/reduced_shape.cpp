#include "ops/reduced_shape.h"

#include "core/check.h"
#include "ops/launch.h"

namespace extensor::ops {

ReducedAxes::ReducedAxes(const char* operation, const Axes& axes, std::int64_t rank) {
  if (rank > max_rank) {
    throw ShapeError(detail::message(operation, ": a shape of rank ", rank,
                                     " was given (allowed: at most ", max_rank, " dimensions)"));
  }
  if (axes.all()) {
    for (std::int64_t d = 0; d < rank; ++d) reduced[d] = true;
    return;
  }
  for (std::int64_t axis : detail::normalize_axes(operation, axes, rank)) reduced[axis] = true;
}

Shape ReducedAxes::shape(const Shape& input, bool keepdims) const {
  Shape result;
  for (std::size_t d = 0; d < input.size(); ++d) {
    if (!reduced[d]) {
      result.push_back(input[d]);
    } else if (keepdims) {
      result.push_back(1);
    }
  }
  return result;
}

std::int64_t ReducedAxes::count(const Shape& input) const {
  std::int64_t count = 1;
  for (std::size_t d = 0; d < input.size(); ++d) {
    if (reduced[d]) count *= input[d];
  }
  return count;
}

Dims ReducedAxes::list(std::int64_t rank) const {
  Dims axes;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (reduced[d]) axes.push_back(d);
  }
  return axes;
}

Dims ReducedAxes::reduced_last(std::int64_t rank) const {
  Dims order;
  for (bool last : {false, true}) {
    for (std::int64_t d = 0; d < rank; ++d) {
      if (reduced[d] == last) order.push_back(d);
    }
  }
  return order;
}

Tensor gradient_with_kept_axes(const char* operation, const Tensor& grad_output,
                               const Shape& input_shape, const ReducedAxes& axes) {
  check_has_gradient(operation, "grad_output", grad_output);
  detail::checked_numel(operation, input_shape);
  const Shape kept = axes.shape(input_shape, true);
  if (grad_output.shape() == kept) return grad_output;
  const Shape removed = axes.shape(input_shape, false);
  if (!(grad_output.shape() == removed)) {
    throw ShapeError(detail::message(operation, ": grad_output is ", grad_output.shape(),
                                     ", the forward gave ", removed, " (or ", kept,
                                     " with keepdims)"));
  }
  return grad_output.reshape(kept);
}

}  // namespace extensor::ops
