#include "extensor/manipulation.h"

#include "core/check.h"
#include "core/make_tensor.h"
#include "ops/launch.h"

namespace extensor {

using detail::message;

namespace {

// Undoes a change of shape: the elements are the same, in the same order. `fits` says whether the
// forward can have given grad_output's shape.
Tensor reshaped_gradient(const char* operation, const Tensor& grad_output, const Shape& input_shape,
                         bool fits = true) {
  ops::check_float(operation, "grad_output", grad_output);
  if (!fits || grad_output.numel() != detail::checked_numel(operation, input_shape)) {
    throw ShapeError(message(operation, ": grad_output is ", grad_output.shape(),
                             ", the input was ", input_shape));
  }
  return grad_output.reshape(input_shape);
}

// Whether `shape` is `from` without some of its dimensions of 1.
bool is_squeezed(const Shape& shape, const Shape& from) {
  std::size_t matched = 0;
  for (std::int64_t size : from) {
    if (matched < shape.size() && shape[matched] == size) {
      ++matched;
    } else if (size != 1) {
      return false;
    }
  }
  return matched == shape.size();
}

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape) { return x.reshape(shape); }
Tensor reshape_backward(const Tensor& grad_output, const Shape& input_shape) {
  return reshaped_gradient("reshape_backward", grad_output, input_shape);
}

Tensor squeeze(const Tensor& x, const Axes& axes) { return x.squeeze(axes); }
Tensor squeeze_backward(const Tensor& grad_output, const Shape& input_shape) {
  return reshaped_gradient("squeeze_backward", grad_output, input_shape,
                           is_squeezed(grad_output.shape(), input_shape));
}

Tensor unsqueeze(const Tensor& x, std::int64_t axis) { return x.unsqueeze(axis); }
Tensor unsqueeze_backward(const Tensor& grad_output, std::int64_t axis) {
  ops::check_float("unsqueeze_backward", "grad_output", grad_output);
  return grad_output.squeeze(Axes(axis));
}

Tensor flatten(const Tensor& x) { return x.flatten(); }
Tensor flatten_backward(const Tensor& grad_output, const Shape& input_shape) {
  return reshaped_gradient("flatten_backward", grad_output, input_shape, grad_output.ndim() == 1);
}

Tensor concatenate(const std::vector<Tensor>& tensors, std::int64_t axis) {
  if (tensors.empty()) throw ValueError("concatenate: needs one tensor at least, got none");
  const Tensor& first = tensors.front();
  const std::int64_t at = detail::normalize_axis("concatenate", axis, first.ndim());
  const auto dimension = static_cast<std::size_t>(at);
  Shape shape = first.shape();
  DType dtype = first.dtype();
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    Shape other = tensors[i].shape();
    bool fits = other.size() == shape.size();
    for (std::size_t d = 0; fits && d < shape.size(); ++d) {
      fits = d == dimension || other[d] == shape[d];
    }
    if (!fits) {
      throw ShapeError(message("concatenate: shapes differ outside axis ", at, ": tensor 0 is ",
                               first.shape(), ", tensor ", i, " is ", other));
    }
    if (__builtin_add_overflow(shape[dimension], other[dimension], &shape[dimension])) {
      throw ShapeError(message("concatenate: axis ", at, " of the result is too long"));
    }
    dtype = promote_types(dtype, tensors[i].dtype(), "concatenate");
  }
  Tensor result = detail::make_empty("concatenate", shape, dtype, first.device());
  std::int64_t begin = 0;
  for (const Tensor& tensor : tensors) {
    const std::int64_t length = tensor.shape()[dimension];
    result.slice(at, begin, begin + length).copy_from(tensor);
    begin += length;
  }
  return result;
}

std::vector<Tensor> split(const Tensor& x, std::int64_t parts, std::int64_t axis) {
  const std::int64_t at = detail::normalize_axis("split", axis, x.ndim());
  const std::int64_t length = x.size(at);
  if (parts < 1 || length % parts != 0) {
    throw ValueError(message("split: parts is ", parts, ", must be at least 1 and divide axis ", at,
                             " of ", x.shape()));
  }
  std::vector<Tensor> result;
  for (std::int64_t i = 0; i < parts; ++i) {
    result.push_back(x.slice(at, i * (length / parts), (i + 1) * (length / parts)));
  }
  return result;
}

}  // namespace extensor
