// Functions that rearrange elements into another shape, and their gradients.
#pragma once

#include <concepts>
#include <optional>
#include <utility>
#include <vector>

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

Tensor reshape(const Tensor& x, const Shape& shape);
Tensor reshape_backward(const Tensor& grad_output, const Shape& input_shape);
Tensor squeeze(const Tensor& x, const Axes& axes = {});
Tensor squeeze_backward(const Tensor& grad_output, const Shape& input_shape);
Tensor unsqueeze(const Tensor& x, StrictInt axis);
inline Tensor expand_dims(const Tensor& x, StrictInt axis) { return unsqueeze(x, axis); }
Tensor unsqueeze_backward(const Tensor& grad_output, StrictInt axis);
// Merges the axes first … last into one; a 0-d tensor becomes [1].
Tensor flatten(const Tensor& x, StrictInt first = 0, StrictInt last = -1);
inline Tensor ravel(const Tensor& x) { return flatten(x); }
Tensor flatten_backward(const Tensor& grad_output, const Shape& input_shape);

// Joins along an existing axis. Dtypes promote.
Tensor concatenate(const std::vector<Tensor>& tensors, StrictInt axis = 0);
inline Tensor concat(const std::vector<Tensor>& tensors, StrictInt axis = 0) {
  return concatenate(tensors, axis);
}
// Returns one gradient for each of the joined shapes, as views.
std::vector<Tensor> concatenate_backward(const Tensor& grad_output,
                                         const std::vector<Shape>& shapes, StrictInt axis = 0);

// Joins tensors of one shape along a new axis. Dtypes promote.
Tensor stack(const std::vector<Tensor>& tensors, StrictInt axis = 0);
std::vector<Tensor> stack_backward(const Tensor& grad_output, StrictInt axis = 0);

// Splits x into equal parts, as views. ValueError unless `parts` divides the axis.
std::vector<Tensor> split(const Tensor& x, StrictInt parts, StrictInt axis = 0);
// Splits x into parts of these sizes: split(x, {2, 3, 5}). ValueError unless they are 0 or more and
// add up to the axis.
std::vector<Tensor> split(const Tensor& x, const Dims& sizes, StrictInt axis = 0);
inline std::vector<Tensor> split(const Tensor& x, std::initializer_list<std::int64_t> sizes,
                                 StrictInt axis = 0) {
  return split(x, Dims(sizes), axis);
}
// PyTorch's chunk: at most `parts` parts of equal size, the last of which may be smaller.
std::vector<Tensor> chunk(const Tensor& x, StrictInt parts, StrictInt axis = 0);
// The gradient of a part may be undefined, which counts as 0.
Tensor split_backward(const std::vector<Tensor>& grad_outputs, const Shape& input_shape,
                      StrictInt axis = 0);
Tensor split_backward(const std::vector<Tensor>& grad_outputs, const Shape& input_shape,
                      const Dims& sizes, StrictInt axis = 0);

// The tensors along an axis, without that axis, as views.
std::vector<Tensor> unstack(const Tensor& x, StrictInt axis = 0);
Tensor unstack_backward(const std::vector<Tensor>& grad_outputs, const Shape& input_shape,
                        StrictInt axis = 0);

// x repeated as a whole, repetitions[d] times along axis d; the shorter of shape and repetitions is
// extended by leading ones, as in NumPy.
Tensor tile(const Tensor& x, const Dims& repetitions);
Tensor tile_backward(const Tensor& grad_output, const Shape& input_shape, const Dims& repetitions);

// Repeats each element along an axis or in x flattened: all equally often, or each its own number
// of times. ValueError for a negative number, ShapeError unless there is one number or one for each
// element.
Tensor repeat(const Tensor& x, std::int64_t repeats, std::optional<StrictInt> axis = {});
Tensor repeat(const Tensor& x, const Dims& repeats, std::optional<StrictInt> axis = {});
Tensor repeat(const Tensor& x, const Tensor& repeats, std::optional<StrictInt> axis = {});
Tensor repeat_backward(const Tensor& grad_output, const Shape& input_shape, std::int64_t repeats,
                       std::optional<StrictInt> axis = {});
Tensor repeat_backward(const Tensor& grad_output, const Shape& input_shape, const Dims& repeats,
                       std::optional<StrictInt> axis = {});
Tensor repeat_backward(const Tensor& grad_output, const Shape& input_shape, const Tensor& repeats,
                       std::optional<StrictInt> axis = {});

// A bool is not a number of times.
template <std::same_as<bool> T>
Tensor repeat(const Tensor&, T, std::optional<StrictInt> = {}) = delete;
template <std::same_as<bool> T>
Tensor repeat_backward(const Tensor&, const Shape&, T, std::optional<StrictInt> = {}) = delete;

// Reverses the elements along the axes, as a view.
Tensor flip(const Tensor& x, const Axes& axes = {});
Tensor flip_backward(const Tensor& grad_output, const Axes& axes = {});

// Shifts the elements along the axes; those shifted past one end reenter at the other. Without axes
// x is shifted as if it were flattened. One shift applies to all axes, and several shifts may apply
// to one axis.
Tensor roll(const Tensor& x, const Dims& shifts, const Axes& axes = {});
inline Tensor roll(const Tensor& x, std::int64_t shift, const Axes& axes = {}) {
  return roll(x, Dims{shift}, axes);
}
Tensor roll_backward(const Tensor& grad_output, const Dims& shifts, const Axes& axes = {});
inline Tensor roll_backward(const Tensor& grad_output, std::int64_t shift, const Axes& axes = {}) {
  return roll_backward(grad_output, Dims{shift}, axes);
}

// A bool is not a shift.
template <std::same_as<bool> T>
Tensor roll(const Tensor&, T, const Axes& = {}) = delete;
template <std::same_as<bool> T>
Tensor roll_backward(const Tensor&, T, const Axes& = {}) = delete;

// Moves axis source[i] to axis destination[i]; the others keep their order. A view.
Tensor moveaxis(const Tensor& x, const Dims& source, const Dims& destination);
inline Tensor moveaxis(const Tensor& x, std::int64_t source, std::int64_t destination) {
  return moveaxis(x, Dims{source}, Dims{destination});
}
Tensor moveaxis_backward(const Tensor& grad_output, const Dims& source, const Dims& destination);
inline Tensor moveaxis_backward(const Tensor& grad_output, std::int64_t source,
                                std::int64_t destination) {
  return moveaxis_backward(grad_output, Dims{source}, Dims{destination});
}

// The values around x: a constant; x mirrored at its edge, without repeating the edge; the edge; or
// x continued from its other end.
enum class PadMode : std::uint8_t { constant, reflect, edge, wrap };

// The number of elements to add before and after each axis; one pair applies to all axes. A
// negative number removes elements.
using Padding = std::vector<std::pair<std::int64_t, std::int64_t>>;

// ValueError if negative widths remove more than there is, or if a mode other than constant has
// nothing to repeat or a negative width.
Tensor pad(const Tensor& x, const Padding& widths, PadMode mode = PadMode::constant,
           const Scalar& value = 0);
Tensor pad_backward(const Tensor& grad_output, const Shape& input_shape, const Padding& widths,
                    PadMode mode = PadMode::constant);

}  // namespace extensor

EXTENSOR_END_API
