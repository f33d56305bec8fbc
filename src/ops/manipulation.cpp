#include "extensor/manipulation.h"

#include "core/check.h"
#include "core/graph.h"
#include "core/machine.h"
#include "core/make_tensor.h"
#include "extensor/creation.h"
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

Tensor unsqueeze(const Tensor& x, StrictInt axis) { return x.unsqueeze(axis); }
Tensor unsqueeze_backward(const Tensor& grad_output, StrictInt axis) {
  ops::check_float("unsqueeze_backward", "grad_output", grad_output);
  return grad_output.squeeze(Axes(axis));
}

Tensor flatten(const Tensor& x) { return x.flatten(); }
Tensor flatten_backward(const Tensor& grad_output, const Shape& input_shape) {
  return reshaped_gradient("flatten_backward", grad_output, input_shape, grad_output.ndim() == 1);
}

// ---- joining
// ---------------------------------------------------------------------------------------

namespace {

std::vector<DType> dtypes_of(const std::vector<Tensor>& tensors) {
  std::vector<DType> dtypes;
  dtypes.reserve(tensors.size());
  for (const Tensor& tensor : tensors) dtypes.push_back(tensor.dtype());
  return dtypes;
}

// Gradients in the dtypes of their inputs; others than floats have none.
std::vector<Tensor> as_dtypes(std::vector<Tensor> gradients, const std::vector<DType>& dtypes) {
  for (std::size_t k = 0; k < gradients.size(); ++k) {
    gradients[k] = is_floating_point(dtypes[k]) ? gradients[k].to(dtypes[k]) : Tensor();
  }
  return gradients;
}

}  // namespace

Tensor concatenate(const std::vector<Tensor>& tensors, StrictInt axis) {
  if (tensors.empty()) throw ValueError("concatenate: needs one tensor at least, got none");
  if (detail::records(tensors)) {
    std::vector<Shape> shapes;
    shapes.reserve(tensors.size());
    for (const Tensor& tensor : tensors) shapes.push_back(tensor.shape());
    return detail::record("concatenate", std::span(tensors),
                          detail::unrecorded([&] { return concatenate(tensors, axis); }),
                          [shapes = std::move(shapes), dtypes = dtypes_of(tensors),
                           axis](const Tensor& g) -> detail::Gradients {
                            return as_dtypes(concatenate_backward(g, shapes, axis), dtypes);
                          });
  }
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

std::vector<Tensor> concatenate_backward(const Tensor& grad_output,
                                         const std::vector<Shape>& shapes, StrictInt axis) {
  constexpr const char* operation = "concatenate_backward";
  if (shapes.empty()) {
    throw ValueError(message(operation, ": needs one shape at least, got none"));
  }
  const Shape& first = shapes.front();
  const auto rank = static_cast<std::int64_t>(first.size());
  const std::int64_t at = detail::normalize_axis(operation, axis, rank);
  const auto dimension = static_cast<std::size_t>(at);
  Shape joined = first;
  joined[dimension] = 0;
  for (const Shape& shape : shapes) {
    detail::checked_numel(operation, shape);
    Shape like = first;
    if (shape.size() == first.size()) like[dimension] = shape[dimension];
    if (!(shape == like) ||
        __builtin_add_overflow(joined[dimension], shape[dimension], &joined[dimension])) {
      throw ShapeError(
          message(operation, ": shapes differ outside axis ", at, ": ", first, " and ", shape));
    }
  }
  ops::check_grad_output(operation, grad_output, joined);
  std::vector<Tensor> gradients;
  std::int64_t begin = 0;
  for (const Shape& shape : shapes) {
    gradients.push_back(grad_output.slice(at, begin, begin + shape[dimension]));
    begin += shape[dimension];
  }
  return gradients;
}

Tensor stack(const std::vector<Tensor>& tensors, StrictInt axis) {
  if (tensors.empty()) throw ValueError("stack: needs one tensor at least, got none");
  if (detail::records(tensors)) {
    return detail::record(
        "stack", std::span(tensors), detail::unrecorded([&] { return stack(tensors, axis); }),
        [dtypes = dtypes_of(tensors), axis](const Tensor& g) -> detail::Gradients {
          return as_dtypes(stack_backward(g, axis), dtypes);
        });
  }
  const Shape& shape = tensors.front().shape();
  const std::int64_t at =
      detail::normalize_axis("stack", axis, static_cast<std::int64_t>(shape.size()) + 1);
  DType dtype = tensors.front().dtype();
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    if (!(tensors[i].shape() == shape)) {
      throw ShapeError(message("stack: shapes differ: tensor 0 is ", shape, ", tensor ", i, " is ",
                               tensors[i].shape()));
    }
    dtype = promote_types(dtype, tensors[i].dtype(), "stack");
  }
  Shape stacked = shape;
  stacked.insert(static_cast<std::size_t>(at), static_cast<std::int64_t>(tensors.size()));
  Tensor result = detail::make_empty("stack", stacked, dtype, tensors.front().device());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto position = static_cast<std::int64_t>(i);
    result.slice(at, position, position + 1).squeeze(at).copy_from(tensors[i]);
  }
  return result;
}

std::vector<Tensor> stack_backward(const Tensor& grad_output, StrictInt axis) {
  ops::check_float("stack_backward", "grad_output", grad_output);
  detail::normalize_axis("stack_backward", axis, grad_output.ndim());
  return unstack(grad_output, axis);
}

// ---- taking apart
// ----------------------------------------------------------------------------------

namespace {

// Room for `count` views. An empty axis splits into any number of parts and a broadcast one has any
// length, so the number is compared with the machine's memory before the first view is made.
std::vector<Tensor> room_for_views(const char* operation, std::int64_t count) {
  constexpr std::size_t bytes_each = sizeof(Tensor) + sizeof(detail::TensorImpl);
  if (static_cast<std::size_t>(count) > detail::machine_bytes() / bytes_each) {
    throw OutOfMemoryError(message(operation, ": no room for ", count, " views: the machine has ",
                                   detail::machine_bytes(), " bytes, each view takes ",
                                   bytes_each));
  }
  std::vector<Tensor> views;
  views.reserve(static_cast<std::size_t>(count));
  return views;
}

}  // namespace

std::vector<Tensor> split(const Tensor& x, StrictInt parts, StrictInt axis) {
  const std::int64_t at = detail::normalize_axis("split", axis, x.ndim());
  const std::int64_t length = x.size(at);
  if (parts < 1 || length % parts != 0) {
    throw ValueError(message("split: parts is ", parts, ", must be at least 1 and divide axis ", at,
                             " of ", x.shape()));
  }
  if (detail::records(x)) {
    std::vector<Tensor> views = detail::unrecorded([&] { return split(x, parts, axis); });
    detail::record_all("split", std::span(&x, 1), std::span(views),
                       [shape = x.shape(), at](detail::Gradients& g, detail::Node&) {
                         return detail::Gradients(split_backward({g.begin(), g.end()}, shape, at));
                       });
    for (Tensor& view : views) view = detail::as_view_of(x, std::move(view));
    return views;
  }
  std::vector<Tensor> result = room_for_views("split", parts);
  for (std::int64_t i = 0; i < parts; ++i) {
    result.push_back(x.slice(at, i * (length / parts), (i + 1) * (length / parts)));
  }
  return result;
}

std::vector<Tensor> unstack(const Tensor& x, StrictInt axis) {
  const std::int64_t at = detail::normalize_axis("unstack", axis, x.ndim());
  if (detail::records(x)) {
    std::vector<Tensor> views = detail::unrecorded([&] { return unstack(x, axis); });
    detail::record_all(
        "unstack", std::span(&x, 1), std::span(views),
        [shape = x.shape(), at](detail::Gradients& g, detail::Node&) {
          return detail::Gradients(unstack_backward({g.begin(), g.end()}, shape, at));
        });
    for (Tensor& view : views) view = detail::as_view_of(x, std::move(view));
    return views;
  }
  std::vector<Tensor> result = room_for_views("unstack", x.size(at));
  for (std::int64_t i = 0; i < x.size(at); ++i) {
    result.push_back(x.slice(at, i, i + 1).squeeze(at));
  }
  return result;
}

namespace {

// The gradients of views that tile the input along an axis, one after the other.
Tensor parts_gradient(const char* operation, const std::vector<Tensor>& grad_outputs,
                      const Shape& input_shape, std::int64_t axis, const Shape& part_shape) {
  if (detail::records(grad_outputs)) {
    return detail::record(
        operation, std::span(grad_outputs), detail::unrecorded([&] {
          return parts_gradient(operation, grad_outputs, input_shape, axis, part_shape);
        }),
        [axis, part_shape, count = static_cast<std::int64_t>(grad_outputs.size())](
            const Tensor& v) -> detail::Gradients {
          std::vector<Tensor> parts = split(v, count, axis);
          for (Tensor& part : parts) part = part.reshape(part_shape);
          return parts;
        });
  }
  detail::checked_numel(operation, input_shape);
  std::optional<DType> dtype;
  for (const Tensor& gradient : grad_outputs) {
    if (!gradient.defined()) continue;
    ops::check_grad_output(operation, gradient, part_shape);
    dtype = dtype ? promote_types(*dtype, gradient.dtype(), operation) : gradient.dtype();
  }
  Tensor result = zeros(input_shape, dtype.value_or(default_float));
  const auto count = static_cast<std::int64_t>(grad_outputs.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const Tensor& gradient = grad_outputs[static_cast<std::size_t>(i)];
    if (!gradient.defined()) continue;
    const std::int64_t length = input_shape[static_cast<std::size_t>(axis)] / count;
    Tensor part = result.slice(axis, i * length, (i + 1) * length);
    part.reshape(part_shape).copy_from(gradient);
  }
  return result;
}

}  // namespace

Tensor split_backward(const std::vector<Tensor>& grad_outputs, const Shape& input_shape,
                      StrictInt axis) {
  constexpr const char* operation = "split_backward";
  const auto rank = static_cast<std::int64_t>(input_shape.size());
  const std::int64_t at = detail::normalize_axis(operation, axis, rank);
  Shape part_shape = input_shape;
  std::int64_t& length = part_shape[static_cast<std::size_t>(at)];
  const auto parts = static_cast<std::int64_t>(grad_outputs.size());
  if (parts == 0 || length % parts != 0) {
    throw ValueError(message(operation, ": ", parts,
                             " gradients were given, must be at least 1 and", " divide axis ", at,
                             " of ", input_shape));
  }
  length /= parts;
  return parts_gradient(operation, grad_outputs, input_shape, at, part_shape);
}

Tensor unstack_backward(const std::vector<Tensor>& grad_outputs, const Shape& input_shape,
                        StrictInt axis) {
  constexpr const char* operation = "unstack_backward";
  const auto rank = static_cast<std::int64_t>(input_shape.size());
  const std::int64_t at = detail::normalize_axis(operation, axis, rank);
  const auto dimension = static_cast<std::size_t>(at);
  const auto parts = static_cast<std::int64_t>(grad_outputs.size());
  if (parts != input_shape[dimension]) {
    throw ValueError(message(operation, ": ", parts, " gradients were given, axis ", at, " of ",
                             input_shape, " needs ", input_shape[dimension]));
  }
  Shape part_shape = input_shape;
  part_shape.erase(dimension);
  return parts_gradient(operation, grad_outputs, input_shape, at, part_shape);
}

}  // namespace extensor
