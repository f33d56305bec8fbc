#include "extensor/manipulation.h"

#include "core/check.h"
#include "core/machine.h"
#include "core/memory_layout.h"
#include "extensor/creation.h"
#include "ops/axis_view.h"
#include "ops/launch.h"
#include "ops/registry.h"

namespace extensor {

namespace {

using detail::message;
using namespace ops;

// Reverses a change of shape, which keeps the elements and their order. `fits` is false if the
// forward cannot have produced the shape of grad_output.
Tensor reshaped_gradient(const char* operation, const Tensor& grad_output, const Shape& input_shape,
                         bool fits = true) {
  check_has_gradient(operation, "grad_output", grad_output);
  if (!fits || grad_output.numel() != detail::checked_numel(operation, input_shape)) {
    throw ShapeError(message(operation, ": grad_output is ", grad_output.shape(),
                             ", the input was ", input_shape));
  }
  return grad_output.reshape(input_shape);
}

// Whether `shape` is `from` with some dimensions of length 1 removed.
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

// Whether `shape` is `from` with some adjacent dimensions merged into one.
bool is_flattened(const Shape& shape, const Shape& from) {
  if (from.empty()) return shape == Shape{1};
  if (shape.empty() || shape.size() > from.size()) return false;
  const std::size_t merged = from.size() - shape.size() + 1;
  for (std::size_t first = 0; first < shape.size(); ++first) {
    Shape candidate;
    for (std::size_t d = 0; d < from.size(); ++d) {
      if (d <= first || d >= first + merged) {
        candidate.push_back(from[d]);
      } else {
        candidate.back() *= from[d];
      }
    }
    if (candidate == shape) return true;
  }
  return false;
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
  check_has_gradient("unsqueeze_backward", "grad_output", grad_output);
  return grad_output.squeeze(Axes(axis));
}

Tensor flatten(const Tensor& x, StrictInt first, StrictInt last) { return x.flatten(first, last); }
Tensor flatten_backward(const Tensor& grad_output, const Shape& input_shape) {
  return reshaped_gradient("flatten_backward", grad_output, input_shape,
                           is_flattened(grad_output.shape(), input_shape));
}

// ---- joining

namespace {

Tensor concatenate_forward(const Run& run, const AxisAttribute& attributes, Inputs tensors) {
  const Tensor& first = tensors[0];
  const std::int64_t axis = detail::normalize_axis(run.name(), attributes.axis, first.ndim());
  Shape shape = first.shape();
  DType dtype = first.dtype();
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    const Shape& other = tensors[i].shape();
    bool fits = other.size() == shape.size();
    for (std::size_t d = 0; fits && d < shape.size(); ++d) {
      fits = d == at(axis) || other[d] == shape[d];
    }
    if (!fits) {
      throw ShapeError(message(run.name(), ": shapes differ outside axis ", axis, ": tensor 0 is ",
                               first.shape(), ", tensor ", i, " is ", other));
    }
    if (__builtin_add_overflow(shape[at(axis)], other[at(axis)], &shape[at(axis)])) {
      throw ShapeError(message(run.name(), ": axis ", axis, " of the result is too long"));
    }
    dtype = promote_types(dtype, tensors[i].dtype(), run.name());
  }
  // channels_last if all tensors are.
  MemoryFormat format = MemoryFormat::channels_last;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    format = std::min(format, detail::format_of(tensors[i]));
  }
  Tensor result = detail::make_empty(run.name(), shape, format, dtype, run.device);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::int64_t length = tensors[i].shape()[at(axis)];
    result.slice(axis, begin, begin + length).copy_from(tensors[i]);
    begin += length;
  }
  return result;
}

Gradients concatenate_gradient(const GradientCall& call, const AxisAttribute& attributes) {
  std::vector<Shape> shapes;
  for (std::size_t k = 0; k < call.inputs(); ++k) shapes.push_back(call.shape(k));
  return concatenate_backward(call.grad(), shapes, attributes.axis);
}

Tensor stack_forward(const Run& run, const AxisAttribute& attributes, Inputs tensors) {
  const Shape& shape = tensors[0].shape();
  const std::int64_t axis = detail::normalize_axis(run.name(), attributes.axis, rank_of(shape) + 1);
  DType dtype = tensors[0].dtype();
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    if (!(tensors[i].shape() == shape)) {
      throw ShapeError(message(run.name(), ": shapes differ: tensor 0 is ", shape, ", tensor ", i,
                               " is ", tensors[i].shape()));
    }
    dtype = promote_types(dtype, tensors[i].dtype(), run.name());
  }
  Shape stacked = shape;
  stacked.insert(at(axis), static_cast<std::int64_t>(tensors.size()));
  Tensor result = run.empty(stacked, dtype);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto position = static_cast<std::int64_t>(i);
    result.slice(axis, position, position + 1).squeeze(axis).copy_from(tensors[i]);
  }
  return result;
}

Gradients stack_gradient(const GradientCall& call, const AxisAttribute& attributes) {
  return stack_backward(call.grad(), attributes.axis);
}

constexpr auto concatenate_op = define<concatenate_forward, concatenate_gradient>(
    {.name = "concatenate", .inputs = {"tensors"}, .reads = {shape()}, .complex = true});
constexpr auto stack_op = define<stack_forward, stack_gradient>(
    {.name = "stack", .inputs = {"tensors"}, .complex = true});

}  // namespace

Tensor concatenate(const std::vector<Tensor>& tensors, StrictInt axis) {
  if (tensors.empty()) throw ValueError("concatenate: needs one tensor at least, got none");
  return dispatch(concatenate_op, {axis}, tensors);
}

Tensor stack(const std::vector<Tensor>& tensors, StrictInt axis) {
  if (tensors.empty()) throw ValueError("stack: needs one tensor at least, got none");
  return dispatch(stack_op, {axis}, tensors);
}

std::vector<Tensor> concatenate_backward(const Tensor& grad_output,
                                         const std::vector<Shape>& shapes, StrictInt axis) {
  constexpr const char* operation = "concatenate_backward";
  if (shapes.empty()) {
    throw ValueError(message(operation, ": needs one shape at least, got none"));
  }
  const Shape& first = shapes.front();
  const std::int64_t along = detail::normalize_axis(operation, axis, rank_of(first));
  Shape joined = first;
  std::int64_t& total = joined[at(along)];
  total = 0;
  for (const Shape& shape : shapes) {
    detail::checked_numel(operation, shape);
    Shape like = first;
    if (shape.size() == first.size()) like[at(along)] = shape[at(along)];
    if (!(shape == like) || __builtin_add_overflow(total, shape[at(along)], &total)) {
      throw ShapeError(
          message(operation, ": shapes differ outside axis ", along, ": ", first, " and ", shape));
    }
  }
  check_grad_output(operation, grad_output, joined);
  std::vector<Tensor> gradients;
  std::int64_t begin = 0;
  for (const Shape& shape : shapes) {
    gradients.push_back(grad_output.slice(along, begin, begin + shape[at(along)]));
    begin += shape[at(along)];
  }
  return gradients;
}

std::vector<Tensor> stack_backward(const Tensor& grad_output, StrictInt axis) {
  check_has_gradient("stack_backward", "grad_output", grad_output);
  detail::normalize_axis("stack_backward", axis, grad_output.ndim());
  return unstack(grad_output, axis);
}

// ---- splitting

namespace {

struct SplitAttributes {
  std::int64_t parts, axis;
};
struct SplitSizes {
  Dims sizes;
  std::int64_t axis;
};

// Reserves `count` views. An empty axis splits into any number of parts and a broadcast axis has
// any length, so the count is compared with the machine's memory before any view is made.
Results room_for_views(const char* operation, std::int64_t count) {
  constexpr std::size_t bytes_each = sizeof(Tensor) + sizeof(detail::TensorImpl);
  if (static_cast<std::size_t>(count) > detail::machine_bytes() / bytes_each) {
    throw OutOfMemoryError(message(operation, ": no room for ", count, " views: the machine has ",
                                   detail::machine_bytes(), " bytes, each view takes ",
                                   bytes_each));
  }
  return Results(static_cast<std::size_t>(count));
}

Results split_forward(const Run& run, const SplitAttributes& attributes, const Tensor& x) {
  const std::int64_t axis = detail::normalize_axis(run.name(), attributes.axis, x.ndim());
  const std::int64_t parts = attributes.parts;
  if (parts < 1 || x.size(axis) % parts != 0) {
    throw ValueError(message(run.name(), ": parts is ", parts,
                             ", must be at least 1 and divide axis ", axis, " of ", x.shape()));
  }
  const std::int64_t length = x.size(axis) / parts;
  Results views = room_for_views(run.name(), parts);
  for (std::int64_t i = 0; i < parts; ++i) {
    views[at(i)] = x.slice(axis, i * length, (i + 1) * length);
  }
  return views;
}

void check_sizes(const char* operation, const Dims& sizes, const Shape& shape, std::int64_t axis) {
  std::int64_t total = 0;
  bool fits = true;
  for (std::int64_t size : sizes) {
    fits = fits && size >= 0 && !__builtin_add_overflow(total, size, &total);
  }
  if (fits && total == shape[at(axis)]) return;
  throw ValueError(message(operation, ": sizes are ", sizes,
                           ", must be 0 or more and add up to axis ", axis, " of ", shape));
}

Results split_sizes_forward(const Run&, const SplitSizes& attributes, const Tensor& x) {
  const std::int64_t axis = detail::normalize_axis("split", attributes.axis, x.ndim());
  check_sizes("split", attributes.sizes, x.shape(), axis);
  Results views(attributes.sizes.size());
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < attributes.sizes.size(); ++i) {
    views[i] = x.slice(axis, begin, begin + attributes.sizes[i]);
    begin += attributes.sizes[i];
  }
  return views;
}

Results unstack_forward(const Run& run, const AxisAttribute& attributes, const Tensor& x) {
  const std::int64_t axis = detail::normalize_axis(run.name(), attributes.axis, x.ndim());
  Results views = room_for_views(run.name(), x.size(axis));
  for (std::int64_t i = 0; i < x.size(axis); ++i) {
    views[at(i)] = x.slice(axis, i, i + 1).squeeze(axis);
  }
  return views;
}

std::vector<Tensor> gradients_of_results(const GradientCall& call, std::int64_t count) {
  std::vector<Tensor> gradients(at(count));
  for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i] = call.grad(i);
  return gradients;
}

Gradients split_gradient(const GradientCall& call, const SplitAttributes& attributes) {
  return split_backward(gradients_of_results(call, attributes.parts), call.shape(),
                        attributes.axis);
}

Gradients split_sizes_gradient(const GradientCall& call, const SplitSizes& attributes) {
  const auto parts = static_cast<std::int64_t>(attributes.sizes.size());
  return split_backward(gradients_of_results(call, parts), call.shape(), attributes.sizes,
                        attributes.axis);
}

Gradients unstack_gradient(const GradientCall& call, const AxisAttribute& attributes) {
  const std::int64_t axis =
      detail::normalize_axis(call.name(), attributes.axis, rank_of(call.shape()));
  return unstack_backward(gradients_of_results(call, call.shape()[at(axis)]), call.shape(), axis);
}

constexpr auto split_op = define<split_forward, split_gradient>(
    {.name = "split", .inputs = {"x"}, .reads = {shape()}, .view = true, .complex = true});
constexpr auto split_sizes_op =
    define<split_sizes_forward, split_sizes_gradient>({.name = "split_with_sizes",
                                                       .inputs = {"x"},
                                                       .reads = {shape()},
                                                       .view = true,
                                                       .complex = true});
constexpr auto unstack_op = define<unstack_forward, unstack_gradient>(
    {.name = "unstack", .inputs = {"x"}, .reads = {shape()}, .view = true, .complex = true});

std::vector<Tensor> as_vector(Results results) {
  return {std::make_move_iterator(results.begin()), std::make_move_iterator(results.end())};
}

// Concatenates the gradients of consecutive views that tile the input along an axis. An undefined
// gradient stands for zeros. `shape_of(i)` is the shape of part i.
template <class ShapeOf>
Tensor joined_gradients(const char* operation, const std::vector<Tensor>& grad_outputs,
                        const Shape& input_shape, std::int64_t axis, const ShapeOf& shape_of) {
  detail::checked_numel(operation, input_shape);
  std::optional<DType> dtype;
  std::optional<Device> device;
  for (std::size_t i = 0; i < grad_outputs.size(); ++i) {
    const Tensor& gradient = grad_outputs[i];
    if (!gradient.defined()) continue;
    check_grad_output(operation, gradient, shape_of(i));
    device = gradient.device();
    dtype = dtype ? promote_types(*dtype, gradient.dtype(), operation) : gradient.dtype();
  }
  if (!dtype) return zeros(input_shape, default_float);
  std::vector<Tensor> parts = grad_outputs;
  const Tensor zero = zeros({}, {dtype, device});
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].defined()) parts[i] = zero.broadcast_to(shape_of(i));
  }
  return shape_of(0).size() == input_shape.size() ? concatenate(parts, axis) : stack(parts, axis);
}

}  // namespace

std::vector<Tensor> split(const Tensor& x, StrictInt parts, StrictInt axis) {
  return as_vector(dispatch(split_op, {parts, axis}, x));
}

std::vector<Tensor> split(const Tensor& x, const Dims& sizes, StrictInt axis) {
  if (sizes.empty()) throw ValueError("split: sizes are [] (allowed: one at least)");
  return as_vector(dispatch(split_sizes_op, {sizes, axis}, x));
}

std::vector<Tensor> chunk(const Tensor& x, StrictInt parts, StrictInt axis) {
  const std::int64_t length = x.size(axis);
  if (parts < 1) throw ValueError(message("chunk: parts is ", parts, ", must be at least 1"));
  const std::int64_t size = std::max<std::int64_t>(1, length / parts + (length % parts != 0));
  Dims sizes;
  for (std::int64_t begin = 0; begin < length; begin += size) {
    sizes.push_back(std::min(size, length - begin));
  }
  if (sizes.empty()) sizes.push_back(0);
  return split(x, sizes, axis);
}

std::vector<Tensor> unstack(const Tensor& x, StrictInt axis) {
  return as_vector(dispatch(unstack_op, {axis}, x));
}

Tensor split_backward(const std::vector<Tensor>& grad_outputs, const Shape& input_shape,
                      StrictInt axis) {
  constexpr const char* operation = "split_backward";
  const std::int64_t along = detail::normalize_axis(operation, axis, rank_of(input_shape));
  Shape part_shape = input_shape;
  const auto parts = static_cast<std::int64_t>(grad_outputs.size());
  if (parts == 0 || input_shape[at(along)] % parts != 0) {
    throw ValueError(message(operation, ": ", parts,
                             " gradients were given, must be at least 1 and divide axis ", along,
                             " of ", input_shape));
  }
  part_shape[at(along)] /= parts;
  return joined_gradients(operation, grad_outputs, input_shape, along,
                          [&](std::size_t) { return part_shape; });
}

Tensor split_backward(const std::vector<Tensor>& grad_outputs, const Shape& input_shape,
                      const Dims& sizes, StrictInt axis) {
  constexpr const char* operation = "split_backward";
  const std::int64_t along = detail::normalize_axis(operation, axis, rank_of(input_shape));
  check_sizes(operation, sizes, input_shape, along);
  if (grad_outputs.empty() || grad_outputs.size() != sizes.size()) {
    throw ValueError(message(operation, ": ", grad_outputs.size(), " gradients were given for ",
                             sizes.size(), " sizes"));
  }
  return joined_gradients(operation, grad_outputs, input_shape, along, [&](std::size_t i) {
    Shape shape = input_shape;
    shape[at(along)] = sizes[i];
    return shape;
  });
}

Tensor unstack_backward(const std::vector<Tensor>& grad_outputs, const Shape& input_shape,
                        StrictInt axis) {
  constexpr const char* operation = "unstack_backward";
  const std::int64_t along = detail::normalize_axis(operation, axis, rank_of(input_shape));
  const auto parts = static_cast<std::int64_t>(grad_outputs.size());
  if (parts != input_shape[at(along)]) {
    throw ValueError(message(operation, ": ", parts, " gradients were given, axis ", along, " of ",
                             input_shape, " needs ", input_shape[at(along)]));
  }
  Shape part_shape = input_shape;
  part_shape.erase(at(along));
  return joined_gradients(operation, grad_outputs, input_shape, along,
                          [&](std::size_t) { return part_shape; });
}

constinit const OpList ops::manipulation_ops =
    listed<concatenate_op, stack_op, split_op, split_sizes_op, unstack_op>;

}  // namespace extensor
