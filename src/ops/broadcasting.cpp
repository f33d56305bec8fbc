#include "extensor/broadcasting.h"

#include <algorithm>

#include "core/check.h"
#include "extensor/reduction.h"
#include "ops/launch.h"

namespace extensor {

using detail::message;

bool are_shapes_broadcastable(const Shape& a, const Shape& b) {
  const std::size_t common = std::min(a.size(), b.size());
  for (std::size_t i = 1; i <= common; ++i) {
    const std::int64_t x = a[a.size() - i], y = b[b.size() - i];
    if (x != y && x != 1 && y != 1) return false;
  }
  return true;
}

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  if (!are_shapes_broadcastable(a, b)) {
    throw ShapeError(message("broadcast_shapes: shapes do not broadcast: ", a, " and ", b));
  }
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape result = longer;
  for (std::size_t i = 1; i <= shorter.size(); ++i) {
    std::int64_t& size = result[result.size() - i];
    if (size == 1) size = shorter[shorter.size() - i];
  }
  return result;
}

Strides compute_broadcast_strides(const Shape& shape, const Strides& strides, const Shape& target) {
  const std::size_t added = target.size() - shape.size();
  bool fits = shape.size() <= target.size() && strides.size() == shape.size();
  for (std::size_t d = 0; fits && d < shape.size(); ++d) {
    fits = shape[d] == target[added + d] || shape[d] == 1;
  }
  if (!fits) {
    throw ShapeError(message("broadcast_to: ", shape, " does not broadcast to ", target));
  }
  Strides result(target.size(), 0);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    result[added + d] = shape[d] == target[added + d] ? strides[d] : 0;
  }
  return result;
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) { return x.broadcast_to(shape); }

Tensor reduce_broadcast_dims(const Tensor& grad, const Shape& original_shape) {
  if (grad.shape() == original_shape) return grad;
  const Shape& shape = grad.shape();
  const std::size_t added = shape.size() - original_shape.size();
  bool fits = original_shape.size() <= shape.size();
  Dims repeated;
  for (std::size_t d = 0; fits && d < shape.size(); ++d) {
    if (d < added) {
      repeated.push_back(static_cast<std::int64_t>(d));
    } else if (original_shape[d - added] != shape[d]) {
      fits = original_shape[d - added] == 1;
      repeated.push_back(static_cast<std::int64_t>(d));
    }
  }
  if (!fits) {
    throw ShapeError(message("reduce_broadcast_dims: original_shape ", original_shape,
                             " does not broadcast to grad's shape ", shape));
  }
  return sum(grad, repeated, true).reshape(original_shape);
}

Tensor broadcast_to_backward(const Tensor& grad_output, const Shape& input_shape) {
  ops::check_has_gradient("broadcast_to_backward", "grad_output", grad_output);
  return reduce_broadcast_dims(grad_output, input_shape);
}

}  // namespace extensor
