// Broadcasting: how shapes combine, and its adjoint.
#pragma once

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

// The shape to which two shapes broadcast, by NumPy's rule. ShapeError if they do not.
Shape broadcast_shapes(const Shape& a, const Shape& b);
bool are_shapes_broadcastable(const Shape& a, const Shape& b);

// The strides that make `shape` with `strides` look like `target`: 0 along repeated dimensions.
// ShapeError if `shape` does not broadcast to `target`.
Strides compute_broadcast_strides(const Shape& shape, const Strides& strides, const Shape& target);

// A view of x with stride 0 along the repeated dimensions.
Tensor broadcast_to(const Tensor& x, const Shape& shape);

// Sums `grad` over the dimensions that broadcasting `original_shape` to grad's shape repeats: the
// adjoint of broadcast_to, and the last step of every broadcasting backward.
Tensor reduce_broadcast_dims(const Tensor& grad, const Shape& original_shape);
Tensor broadcast_to_backward(const Tensor& grad_output, const Shape& input_shape);

}  // namespace extensor

EXTENSOR_END_API
