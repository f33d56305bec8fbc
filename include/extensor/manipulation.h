// The same elements in another shape, and the gradients of that.
#pragma once

#include "extensor/tensor.h"

namespace extensor {

Tensor reshape(const Tensor& x, const Shape& shape);
Tensor reshape_backward(const Tensor& grad_output, const Shape& input_shape);
Tensor squeeze(const Tensor& x, const Axes& axes = {});
Tensor squeeze_backward(const Tensor& grad_output, const Shape& input_shape);
Tensor unsqueeze(const Tensor& x, std::int64_t axis);
inline Tensor expand_dims(const Tensor& x, std::int64_t axis) { return unsqueeze(x, axis); }
Tensor unsqueeze_backward(const Tensor& grad_output, std::int64_t axis);
Tensor flatten(const Tensor& x);
inline Tensor ravel(const Tensor& x) { return flatten(x); }
Tensor flatten_backward(const Tensor& grad_output, const Shape& input_shape);

// Joins along an existing axis, or stacks along a new one. Dtypes promote.
Tensor concatenate(const std::vector<Tensor>& tensors, std::int64_t axis = 0);
// Equal parts, as views. ValueError unless they divide the axis.
std::vector<Tensor> split(const Tensor& x, std::int64_t parts, std::int64_t axis = 0);

}  // namespace extensor
