// The axes that a reduction removes, and the shapes on both sides of it.
#pragma once

#include "extensor/tensor.h"

namespace extensor::ops {

struct ReducedAxes {
  bool reduced[max_rank] = {};

  // IndexError for an axis out of range, ValueError for one named twice, ShapeError for a rank
  // beyond max_rank.
  ReducedAxes(const char* operation, const Axes& axes, std::int64_t rank);

  Shape shape(const Shape& input, bool keepdims) const;
  std::int64_t count(const Shape& input) const;  // elements that become one
  Dims list(std::int64_t rank) const;
  Dims reduced_last(std::int64_t rank) const;  // the axes in order, but the reduced ones last
};

// The dtype of sums and products: 64 bits for integers and bool, the same for floats.
inline DType accumulated_dtype(DType dtype) {
  if (is_floating_point(dtype)) return dtype;
  return is_unsigned_integer(dtype) ? DType::uint64 : DType::int64;
}

// grad_output, given with or without the reduced axes kept, as a view with them kept. ShapeError
// when it is neither, DTypeError when it is not a float.
Tensor gradient_with_kept_axes(const char* operation, const Tensor& grad_output,
                               const Shape& input_shape, const ReducedAxes& axes);

}  // namespace extensor::ops
