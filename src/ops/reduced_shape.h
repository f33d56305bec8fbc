// The axes that a reduction removes, and the shapes before and after it.
#pragma once

#include "extensor/tensor.h"

namespace extensor::ops {

struct ReducedAxes {
  bool reduced[max_rank] = {};

  // Throws IndexError for an axis out of range, ValueError for a repeated axis, and ShapeError for
  // a rank above max_rank.
  ReducedAxes(const char* operation, const Axes& axes, std::int64_t rank);

  Shape shape(const Shape& input, bool keepdims) const;
  std::int64_t count(const Shape& input) const;  // number of elements that are reduced to one
  Dims list(std::int64_t rank) const;
  Dims reduced_last(std::int64_t rank) const;  // the axes in order, with the reduced ones last
};

// The dtype of sums and products: 64 bits for integers and bool, the same for floats.
inline DType accumulated_dtype(DType dtype) {
  if (is_differentiable(dtype)) return dtype;
  return is_unsigned_integer(dtype) ? DType::uint64 : DType::int64;
}

// A view of grad_output, which may have the reduced axes or not, with these axes kept. Throws
// ShapeError if it has neither shape, and DTypeError if it is not a float.
Tensor gradient_with_kept_axes(const char* operation, const Tensor& grad_output,
                               const Shape& input_shape, const ReducedAxes& axes);

}  // namespace extensor::ops
