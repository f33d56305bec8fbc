// Ops that repeat, reverse, shift and pad elements, or move axes.
#include <algorithm>

#include "core/check.h"
#include "core/make_tensor.h"
#include "core/memory_layout.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/indexing.h"
#include "extensor/manipulation.h"
#include "extensor/matrix.h"
#include "extensor/reduction.h"
#include "ops/axis_view.h"
#include "ops/launch.h"
#include "ops/registry.h"
#include "ops/scalar_range.h"

namespace extensor {

namespace {

using detail::message;
using namespace ops;

std::int64_t checked_product(const char* operation, std::int64_t a, std::int64_t b) {
  std::int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) {
    throw ShapeError(
        message(operation, ": ", b, " repetitions of an axis of size ", a, " are too many"));
  }
  return product;
}

void check_not_negative(const char* operation, const char* argument, std::int64_t count) {
  if (count >= 0) return;
  throw ValueError(message(operation, ": ", argument, " has ", count, ", must be 0 or more"));
}

}  // namespace

// ---- tile

namespace {

// The view that tile copies: each axis becomes a repetition and an axis of x. Dimensions of length
// 1 are omitted, so that the rank is valid for every result that fits into memory.
struct Tiling {
  Shape result;      // shape of the result of tile
  Shape single;      // shape of x, with a 1 for each repetition
  Shape repeated;    // the same with the numbers of repetitions
  Dims repeat_axes;  // axes of the repetitions

  Tiling(const char* operation, const Shape& shape, const Dims& repetitions) {
    const std::size_t rank = std::max(shape.size(), repetitions.size());
    for (std::size_t d = 0; d < rank; ++d) {
      const std::size_t behind = rank - d;
      const std::int64_t size = behind <= shape.size() ? shape[shape.size() - behind] : 1;
      const std::int64_t times =
          behind <= repetitions.size() ? repetitions[repetitions.size() - behind] : 1;
      check_not_negative(operation, "repetitions", times);
      result.push_back(checked_product(operation, size, times));
      if (times != 1) {
        repeat_axes.push_back(rank_of(repeated));
        single.push_back(1);
        repeated.push_back(times);
      }
      if (size != 1) {
        single.push_back(size);
        repeated.push_back(size);
      }
    }
    detail::checked_numel(operation, result);
  }
};

struct TileAttributes {
  Dims repetitions;
};

Tensor tile_forward(const Run& run, const TileAttributes& attributes, const Tensor& x) {
  const Tiling tiling(run.name(), x.shape(), attributes.repetitions);
  Tensor tiled = run.empty(tiling.result, x.dtype());
  if (tiled.numel() != 0) tiled.reshape(tiling.repeated).copy_from(x.reshape(tiling.single));
  return tiled;
}

Gradients tile_gradient(const GradientCall& call, const TileAttributes& attributes) {
  return tile_backward(call.grad(), call.shape(), attributes.repetitions);
}

constexpr auto tile_op = define<tile_forward, tile_gradient>(
    {.name = "tile", .inputs = {"x"}, .reads = {shape()}, .complex = true});

}  // namespace

Tensor tile(const Tensor& x, const Dims& repetitions) {
  return dispatch(tile_op, {repetitions}, x);
}

Tensor tile_backward(const Tensor& grad_output, const Shape& input_shape, const Dims& repetitions) {
  detail::checked_numel("tile_backward", input_shape);
  const Tiling tiling("tile_backward", input_shape, repetitions);
  check_grad_output("tile_backward", grad_output, tiling.result);
  if (grad_output.numel() == 0)
    return zeros(input_shape, {grad_output.dtype(), grad_output.device()});
  if (tiling.repeat_axes.empty()) return grad_output.reshape(input_shape);
  return sum(grad_output.reshape(tiling.repeated), tiling.repeat_axes).reshape(input_shape);
}

// ---- repeat

namespace {

// The position of the axis that each position of the result copies: 0, 0, 1, 2, 2, 2 …
Tensor repeated_positions(const char* operation, const Dims& repeats, std::int64_t length,
                          Device device) {
  if (repeats.size() != 1 && rank_of(repeats) != length) {
    throw ShapeError(message(operation, ": repeats has ", repeats.size(),
                             " numbers, must be one or ", length, ", the size of the axis"));
  }
  std::int64_t total = 0;
  for (std::int64_t i = 0; i < length; ++i) {
    const std::int64_t times = repeats[repeats.size() == 1 ? 0 : at(i)];
    check_not_negative(operation, "repeats", times);
    if (__builtin_add_overflow(total, times, &total)) {
      throw ShapeError(message(operation, ": the result's axis is too long"));
    }
  }
  detail::checked_numel(operation, {total});
  Tensor positions = detail::make_empty(operation, {total}, DType::int64, cpu_device);
  std::int64_t* next = positions.data<std::int64_t>();
  for (std::int64_t i = 0; i < length; ++i) {
    next = std::fill_n(next, repeats[repeats.size() == 1 ? 0 : at(i)], i);
  }
  return positions.to(device);
}

Dims repeats_of(const char* operation, const Tensor& repeats) {
  if (!is_integer(repeats.dtype())) {
    throw DTypeError(
        message(operation, ": repeats is ", repeats.dtype(), ", must be of an integer dtype"));
  }
  if (repeats.ndim() > 1) {
    throw ShapeError(
        message(operation, ": repeats is ", repeats.shape(), ", must have one dimension at most"));
  }
  return repeats.to(DType::int64).to_vector<std::int64_t>();
}

Shape repeated_shape(const char* operation, const Shape& shape, std::int64_t axis,
                     std::int64_t repeats) {
  check_not_negative(operation, "repeats", repeats);
  Shape result = shape;
  result[at(axis)] = checked_product(operation, result[at(axis)], repeats);
  return result;
}

struct RepeatAttributes {
  std::int64_t repeats, axis;
};

Tensor repeat_forward(const Run& run, const RepeatAttributes& attributes, const Tensor& x) {
  const auto [repeats, axis] = attributes;
  const std::int64_t along = detail::normalize_axis(run.name(), axis, x.ndim());
  Tensor repeated = run.empty(repeated_shape(run.name(), x.shape(), along, repeats), x.dtype());
  if (repeated.numel() == 0) return repeated;
  const AxisView view(x.shape(), along);
  repeated.reshape({view.outer * view.length, repeats, view.inner})
      .copy_from(x.reshape({view.outer * view.length, 1, view.inner}));
  return repeated;
}

Gradients repeat_gradient(const GradientCall& call, const RepeatAttributes& attributes) {
  return repeat_backward(call.grad(), call.shape(), attributes.repeats, attributes.axis);
}

constexpr auto repeat_op = define<repeat_forward, repeat_gradient>(
    {.name = "repeat", .inputs = {"x"}, .reads = {shape()}, .complex = true});

}  // namespace

Tensor repeat(const Tensor& x, std::int64_t repeats, std::optional<StrictInt> axis) {
  if (!axis) return repeat(x.flatten(), repeats, 0);
  return dispatch(repeat_op, {repeats, *axis}, x);
}

Tensor repeat(const Tensor& x, const Dims& repeats, std::optional<StrictInt> axis) {
  if (!axis) return repeat(x.flatten(), repeats, 0);
  const std::int64_t along = detail::normalize_axis("repeat", *axis, x.ndim());
  return take(x, repeated_positions("repeat", repeats, x.size(along), x.device()), along);
}

Tensor repeat(const Tensor& x, const Tensor& repeats, std::optional<StrictInt> axis) {
  return repeat(x, repeats_of("repeat", repeats), axis);
}

Tensor repeat_backward(const Tensor& grad_output, const Shape& input_shape, std::int64_t repeats,
                       std::optional<StrictInt> axis) {
  constexpr const char* operation = "repeat_backward";
  const std::int64_t numel = detail::checked_numel(operation, input_shape);
  if (!axis) return repeat_backward(grad_output, {numel}, repeats, 0).reshape(input_shape);
  const std::int64_t along = detail::normalize_axis(operation, *axis, rank_of(input_shape));
  check_grad_output(operation, grad_output, repeated_shape(operation, input_shape, along, repeats));
  if (grad_output.numel() == 0)
    return zeros(input_shape, {grad_output.dtype(), grad_output.device()});
  const AxisView view(input_shape, along);
  return sum(grad_output.reshape({view.outer * view.length, repeats, view.inner}), 1)
      .reshape(input_shape);
}

Tensor repeat_backward(const Tensor& grad_output, const Shape& input_shape, const Dims& repeats,
                       std::optional<StrictInt> axis) {
  constexpr const char* operation = "repeat_backward";
  const std::int64_t numel = detail::checked_numel(operation, input_shape);
  if (!axis) return repeat_backward(grad_output, {numel}, repeats, 0).reshape(input_shape);
  const std::int64_t along = detail::normalize_axis(operation, *axis, rank_of(input_shape));
  const Tensor positions =
      repeated_positions(operation, repeats, input_shape[at(along)], grad_output.device());
  Shape expected = input_shape;
  expected[at(along)] = positions.numel();
  check_grad_output(operation, grad_output, expected);
  return take_backward(grad_output, input_shape, positions, along);
}

Tensor repeat_backward(const Tensor& grad_output, const Shape& input_shape, const Tensor& repeats,
                       std::optional<StrictInt> axis) {
  return repeat_backward(grad_output, input_shape, repeats_of("repeat_backward", repeats), axis);
}

// ---- flip and roll

namespace {

Tensor flipped(const char* operation, const Tensor& x, const Axes& axes) {
  Tensor result = x;
  for (std::int64_t axis : detail::normalize_axes(operation, axes, x.ndim())) {
    result = result.slice(axis, {}, {}, -1);
  }
  return result;
}

// The shift of each axis, in 0 … size − 1 (0 if the axis is empty).
Dims shifts_by_axis(const char* operation, const Shape& shape, const Dims& shifts, const Dims& axes,
                    bool back) {
  if (shifts.size() != axes.size() && shifts.size() != 1 && axes.size() != 1) {
    throw ShapeError(message(operation, ": ", shifts.size(), " shifts ", shifts, " for ",
                             axes.size(), " axes ", axes, ", must be as many or one"));
  }
  Dims total(shape.size(), 0);
  const std::size_t pairs =
      shifts.empty() || axes.empty() ? 0 : std::max(shifts.size(), axes.size());
  for (std::size_t i = 0; i < pairs; ++i) {
    const std::int64_t axis =
        detail::normalize_axis(operation, axes[axes.size() == 1 ? 0 : i], rank_of(shape));
    const std::int64_t size = shape[at(axis)];
    if (size == 0) continue;
    const std::int64_t shift = shifts[shifts.size() == 1 ? 0 : i] % size;
    std::int64_t& sum = total[at(axis)];
    sum += shift < 0 ? shift + size : shift;
    if (sum >= size) sum -= size;
  }
  for (std::size_t d = 0; back && d < total.size(); ++d) {
    if (total[d] != 0) total[d] = shape[d] - total[d];
  }
  return total;
}

// Copies `from`, shifted along this axis and the following ones, to `to` block by block.
void copy_rolled(const Tensor& from, Tensor to, const Dims& shifts, std::int64_t axis) {
  while (axis < from.ndim() && shifts[at(axis)] == 0) ++axis;
  if (axis == from.ndim()) {
    to.copy_from(from);
    return;
  }
  const std::int64_t shift = shifts[at(axis)], kept = from.size(axis) - shift;
  copy_rolled(from.slice(axis, 0, kept), to.slice(axis, shift), shifts, axis + 1);
  copy_rolled(from.slice(axis, kept), to.slice(axis, 0, shift), shifts, axis + 1);
}

struct RollAttributes {
  Dims shifts;
  Axes axes;
};

template <bool back>
Tensor roll_forward(const Run& run, const RollAttributes& attributes, const Tensor& x) {
  if (back) check_has_gradient(run.name(), "grad_output", x);
  if (attributes.axes.all()) {
    return roll_forward<back>(run, {attributes.shifts, Axes(0)}, x.flatten()).reshape(x.shape());
  }
  const Dims by_axis =
      shifts_by_axis(run.name(), x.shape(), attributes.shifts, attributes.axes.list(), back);
  Tensor rolled = run.empty(x.shape(), x.dtype());
  if (rolled.numel() != 0) copy_rolled(x, rolled, by_axis, 0);
  return rolled;
}

template <bool back>
Gradients roll_gradient(const GradientCall& call, const RollAttributes& attributes) {
  const auto& [shifts, axes] = attributes;
  return back ? roll(call.grad(), shifts, axes) : roll_backward(call.grad(), shifts, axes);
}

constexpr auto roll_op = define<roll_forward<false>, roll_gradient<false>>(
    {.name = "roll", .inputs = {"x"}, .complex = true});
constexpr auto roll_backward_op = define<roll_forward<true>, roll_gradient<true>>(
    {.name = "roll_backward", .inputs = {"grad_output"}, .complex = true});

}  // namespace

Tensor flip(const Tensor& x, const Axes& axes) { return flipped("flip", x, axes); }

Tensor flip_backward(const Tensor& grad_output, const Axes& axes) {
  check_has_gradient("flip_backward", "grad_output", grad_output);
  return flipped("flip_backward", grad_output, axes);
}

Tensor roll(const Tensor& x, const Dims& shifts, const Axes& axes) {
  return dispatch(roll_op, {shifts, axes}, x);
}

Tensor roll_backward(const Tensor& grad_output, const Dims& shifts, const Axes& axes) {
  return dispatch(roll_backward_op, {shifts, axes}, grad_output);
}

// ---- moveaxis

namespace {

// The permutation that moves the axes.
Dims moved_order(const char* operation, std::int64_t rank, const Dims& source,
                 const Dims& destination) {
  if (source.size() != destination.size()) {
    throw ShapeError(message(operation, ": source has ", source.size(), " axes and destination ",
                             destination.size(), ", must be as many"));
  }
  detail::normalize_axes(operation, source, rank);  // checks range and repetition
  detail::normalize_axes(operation, destination, rank);
  Dims order(at(rank), -1);
  bool moved[max_rank] = {};
  for (std::size_t i = 0; i < source.size(); ++i) {
    const std::int64_t from = detail::normalize_axis(operation, source[i], rank);
    order[at(detail::normalize_axis(operation, destination[i], rank))] = from;
    moved[from] = true;
  }
  std::int64_t next = 0;
  for (std::int64_t& axis : order) {
    if (axis >= 0) continue;
    while (moved[next]) ++next;
    axis = next++;
  }
  return order;
}

}  // namespace

Tensor moveaxis(const Tensor& x, const Dims& source, const Dims& destination) {
  return x.transpose(moved_order("moveaxis", x.ndim(), source, destination));
}

Tensor moveaxis_backward(const Tensor& grad_output, const Dims& source, const Dims& destination) {
  constexpr const char* operation = "moveaxis_backward";
  check_has_gradient(operation, "grad_output", grad_output);
  return grad_output.transpose(moved_order(operation, grad_output.ndim(), destination, source));
}

// ---- pad

namespace {

// One checked pair of widths per axis, and the shape of the result.
struct Frame {
  Padding widths;
  Shape result;

  Frame(const char* operation, const Shape& shape, const Padding& given, PadMode mode)
      : widths(given), result(shape) {
    detail::check_option(operation, "mode", mode, PadMode::wrap);
    if (given.size() == 1) widths.assign(shape.size(), given[0]);
    if (widths.size() != shape.size()) {
      throw ShapeError(message(operation, ": widths has ", given.size(), " pairs and x is ", shape,
                               ", must be one or one per axis"));
    }
    for (std::size_t d = 0; d < widths.size(); ++d) {
      const auto [before, behind] = widths[d];
      if (before < 0 || behind < 0) {
        throw ValueError(message(operation, ": the widths of axis ", d, " are ", before, " and ",
                                 behind, ", must be 0 or more"));
      }
      if (mode != PadMode::constant && shape[d] == 0 && (before > 0 || behind > 0)) {
        throw ValueError(
            message(operation, ": axis ", d, " of ", shape, " has no elements to pad with"));
      }
      if (__builtin_add_overflow(result[d], before, &result[d]) ||
          __builtin_add_overflow(result[d], behind, &result[d])) {
        throw ShapeError(message(operation, ": the result's axis ", d, " is too long"));
      }
    }
    detail::checked_numel(operation, result);
  }

  Tensor middle(Tensor whole, const Shape& shape) const {
    for (std::size_t d = 0; d < widths.size(); ++d) {
      const auto first = widths[d].first;
      whole = whole.slice(static_cast<std::int64_t>(d), first, first + shape[d]);
    }
    return whole;
  }
  bool pads(std::size_t d) const { return widths[d].first != 0 || widths[d].second != 0; }
};

// The element of an axis of n > 0 that each position of the padded axis repeats.
Tensor padded_positions(std::int64_t n, std::int64_t before, std::int64_t behind, PadMode mode,
                        Device device) {
  const Tensor position = subtract(arange(n + before + behind, device), before);
  switch (mode) {
    case PadMode::edge:
      return clip(position, 0, n - 1);
    case PadMode::wrap:
      return modulo(position, n);
    default: {
      // A full reflection cycle takes 2 (n − 1) steps.
      const std::int64_t period = std::max<std::int64_t>(1, 2 * (n - 1));
      const Tensor phase = modulo(position, period);
      return minimum(phase, subtract(period, phase)) * (n > 1 ? 1 : 0);
    }
  }
}

// One of these positions, relative to the first element.
std::int64_t padded_position(std::int64_t n, std::int64_t position, PadMode mode) {
  if (mode == PadMode::edge) return std::clamp<std::int64_t>(position, 0, n - 1);
  const std::int64_t period = mode == PadMode::wrap ? n : std::max<std::int64_t>(1, 2 * (n - 1));
  const std::int64_t phase = (position % period + period) % period;
  return mode == PadMode::wrap ? phase : std::min(phase, period - phase) * (n > 1 ? 1 : 0);
}

struct PadAttributes {
  Padding widths;
  PadMode mode;
  Scalar value;
};

// Copies x and then each position of the edges, the last axis first: the axes behind are complete.
constexpr std::int64_t most_edges = 16;
Tensor pad_by_copies(const Run& run, const Frame& frame, const Tensor& x, PadMode mode) {
  Tensor padded =
      detail::make_empty(run.name(), frame.result, detail::format_of(x), x.dtype(), run.device);
  frame.middle(padded, x.shape()).copy_from(x);
  for (std::size_t d = frame.widths.size(); d-- > 0;) {
    Tensor region = padded;
    for (std::size_t e = 0; e < d; ++e) {
      const std::int64_t first = frame.widths[e].first;
      region = region.slice(static_cast<std::int64_t>(e), first, first + x.shape()[e]);
    }
    const auto axis = static_cast<std::int64_t>(d);
    const std::int64_t before = frame.widths[d].first, behind = frame.widths[d].second;
    const std::int64_t n = x.shape()[d];
    const auto fill = [&](std::int64_t position) {
      const std::int64_t to = before + position, from = before + padded_position(n, position, mode);
      // `from` is in the middle and `to` is not, which copy_from would have to find out.
      const Tensor repeated = region.slice(axis, from, from + 1);
      Tensor edge = region.slice(axis, to, to + 1);
      const Source inputs[] = {repeated};
      launch(ElementwiseOp::copy, x.dtype(), inputs, edge);
    };
    for (std::int64_t position = -before; position < 0; ++position) fill(position);
    for (std::int64_t position = n; position < n + behind; ++position) fill(position);
  }
  return padded;
}

Tensor pad_forward(const Run& run, const PadAttributes& attributes, const Tensor& x) {
  const PadMode mode = attributes.mode;
  const Frame frame(run.name(), x.shape(), attributes.widths, mode);
  if (mode == PadMode::constant) {
    check_scalar_stored(run.name(), "value", attributes.value, x.dtype());
    Tensor padded =
        detail::make_empty(run.name(), frame.result, detail::format_of(x), x.dtype(), run.device);
    padded.fill(attributes.value);
    frame.middle(padded, x.shape()).copy_from(x);
    return padded;
  }
  std::int64_t edges = 0;
  for (const auto& [before, behind] : frame.widths) {
    edges += std::min(before, most_edges + 1) + std::min(behind, most_edges + 1);
  }
  if (edges <= most_edges) return pad_by_copies(run, frame, x, mode);
  Tensor padded = x;
  for (std::size_t d = 0; d < frame.widths.size(); ++d) {
    if (!frame.pads(d)) continue;
    const auto [before, behind] = frame.widths[d];
    padded = take(padded, padded_positions(x.shape()[d], before, behind, mode, x.device()),
                  static_cast<std::int64_t>(d));
  }
  return padded;
}

Gradients pad_gradient(const GradientCall& call, const PadAttributes& attributes) {
  return pad_backward(call.grad(), call.shape(), attributes.widths, attributes.mode);
}

constexpr auto pad_op = define<pad_forward, pad_gradient>(
    {.name = "pad", .inputs = {"x"}, .reads = {shape()}, .complex = true});

}  // namespace

namespace {

bool is_negative(const std::pair<std::int64_t, std::int64_t>& width) {
  return width.first < 0 || width.second < 0;
}

// Negative widths as a slice of x followed by widths of 0 or more.
struct Crop {
  Shape kept;
  Padding widths;
  std::vector<std::int64_t> begins;

  Crop(const char* operation, const Shape& shape, const Padding& given, PadMode mode)
      : kept(shape), widths(given) {
    if (given.size() == 1) widths.assign(shape.size(), given[0]);
    if (widths.size() != shape.size()) return;  // refused by the Frame
    for (std::size_t d = 0; d < widths.size(); ++d) {
      auto& [before, behind] = widths[d];
      // At most one more than the axis, so that neither the negation nor the sum overflows.
      const auto removed = [&](std::int64_t width) {
        return width >= 0 ? 0 : width < -shape[d] ? shape[d] + 1 : -width;
      };
      const std::int64_t front = removed(before), back = removed(behind);
      if (is_negative(widths[d]) &&
          (mode != PadMode::constant || front > shape[d] || back > shape[d] - front)) {
        throw ValueError(message(operation, ": the widths of axis ", d, " are ", before, " and ",
                                 behind, " for shape ", shape,
                                 " (allowed: 0 or more; negative ones in constant mode that "
                                 "remove at most the axis)"));
      }
      kept[d] -= front + back;
      begins.push_back(front);
      before = std::max<std::int64_t>(0, before);
      behind = std::max<std::int64_t>(0, behind);
    }
  }
};

}  // namespace

Tensor pad(const Tensor& x, const Padding& widths, PadMode mode, const Scalar& value) {
  if (std::ranges::any_of(widths, is_negative)) {
    const Crop crop("pad", x.shape(), widths, mode);
    Tensor part = x;
    for (std::size_t d = 0; d < crop.begins.size(); ++d) {
      part =
          part.slice(static_cast<std::int64_t>(d), crop.begins[d], crop.begins[d] + crop.kept[d]);
    }
    return dispatch(pad_op, {crop.widths, mode, value}, part);
  }
  return dispatch(pad_op, {widths, mode, value}, x);
}

Tensor pad_backward(const Tensor& grad_output, const Shape& input_shape, const Padding& widths,
                    PadMode mode) {
  constexpr const char* operation = "pad_backward";
  detail::checked_numel(operation, input_shape);
  if (std::ranges::any_of(widths, is_negative)) {
    const Crop crop(operation, input_shape, widths, mode);
    const Tensor part = pad_backward(grad_output, crop.kept, crop.widths, mode);
    Padding removed;
    for (std::size_t d = 0; d < crop.begins.size(); ++d) {
      removed.emplace_back(crop.begins[d], input_shape[d] - crop.kept[d] - crop.begins[d]);
    }
    return pad(part, removed);
  }
  const Frame frame(operation, input_shape, widths, mode);
  check_grad_output(operation, grad_output, frame.result);
  if (mode == PadMode::constant) return frame.middle(grad_output, input_shape);
  // Round half dtypes once, after the last axis.
  Tensor gradient = grad_output.to(compute_dtype(grad_output.dtype()));
  for (std::size_t d = frame.widths.size(); d-- > 0;) {
    if (!frame.pads(d)) continue;
    const auto [before, behind] = frame.widths[d];
    Shape shape = gradient.shape();
    shape[d] = input_shape[d];
    gradient = take_backward(gradient, shape,
                             padded_positions(shape[d], before, behind, mode, gradient.device()),
                             static_cast<std::int64_t>(d));
  }
  return gradient.to(grad_output.dtype());
}

constinit const OpList ops::rearrange_ops =
    listed<tile_op, repeat_op, roll_op, roll_backward_op, pad_op>;

}  // namespace extensor
