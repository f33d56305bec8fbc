// Index expressions x[…] and slices. Integers and slices produce views; tensors produce copies.
// index_assignment.cpp implements assignments to them.
#include <algorithm>

#include "core/check.h"
#include "core/graph.h"
#include "core/make_tensor.h"
#include "extensor/indexing.h"
#include "ops/index_plan.h"
#include "ops/registry.h"
#include "ops/view_op.h"

namespace extensor {

namespace {

using detail::message;
using detail::TensorImpl;
using namespace ops;

// The positions of an axis that a slice keeps: `count` of them, first, first + step, …
struct Range {
  std::int64_t first;
  std::int64_t count;
};

// Follows NumPy: negative bounds count from the end, then every bound is clamped. No bound
// overflows.
Range resolve_slice(const char* operation, const Slice& slice, std::int64_t size) {
  if (slice.step == 0) {
    throw ValueError(message(operation, ": slice step is 0 (allowed: any other)"));
  }
  const bool forward = slice.step > 0;
  const std::int64_t lowest = forward ? 0 : -1;
  const std::int64_t highest = forward ? size : size - 1;
  const auto clamp = [&](std::int64_t bound) {
    const std::int64_t from_front = bound < 0 ? bound + size : bound;  // signs differ: no overflow
    return std::clamp(from_front, lowest, highest);
  };
  const std::int64_t start = slice.start ? clamp(*slice.start) : (forward ? lowest : highest);
  const std::int64_t stop = slice.stop ? clamp(*slice.stop) : (forward ? highest : lowest);
  const std::int64_t distance = forward ? stop - start : start - stop;
  if (distance <= 0) return {0, 0};
  // Use the unsigned magnitude, which exists for INT64_MIN too.
  const std::uint64_t step =
      forward ? static_cast<std::uint64_t>(slice.step) : 0 - static_cast<std::uint64_t>(slice.step);
  const auto count = (static_cast<std::uint64_t>(distance) - 1) / step + 1;
  return {start, static_cast<std::int64_t>(count)};
}

// The view that an index expression is building.
struct Selected {
  std::byte* data;
  Shape shape;
  Strides strides;
};

void take_slice(const char* operation, const TensorImpl& tensor, std::size_t axis,
                const Slice& slice, Selected& selected) {
  const Range range = resolve_slice(operation, slice, tensor.shape[axis]);
  const std::int64_t stride = tensor.strides[axis];
  const auto item = static_cast<std::int64_t>(itemsize(tensor.dtype));
  // An empty tensor has no positions, so its pointer does not move.
  if (tensor.numel != 0) selected.data += range.first * stride * item;
  selected.shape.push_back(range.count);
  // With at most one position the step is unused, and its product might overflow.
  selected.strides.push_back(range.count > 1 ? stride * slice.step : stride);
}

void check_position(const char* operation, const Shape& shape, std::size_t axis,
                    std::int64_t position) {
  const std::int64_t size = shape[axis];
  if (position >= -size && position < size) return;
  if (size == 0) {
    throw IndexError(message(operation, ": index ", position, " on axis ", axis, " of shape ",
                             shape, ", which is empty"));
  }
  throw IndexError(message(operation, ": index ", position, " is out of range for axis ", axis,
                           " of shape ", shape, " (allowed: ", -size, " to ", size - 1, ")"));
}

void take_position(const char* operation, const TensorImpl& tensor, std::size_t axis,
                   std::int64_t position, Selected& selected) {
  const std::int64_t size = tensor.shape[axis];
  check_position(operation, tensor.shape, axis, position);
  const auto item = static_cast<std::int64_t>(itemsize(tensor.dtype));
  if (tensor.numel != 0) {
    selected.data += (position < 0 ? position + size : position) * tensor.strides[axis] * item;
  }
}

void keep_axis(const TensorImpl& tensor, std::size_t axis, Selected& selected) {
  selected.shape.push_back(tensor.shape[axis]);
  selected.strides.push_back(tensor.strides[axis]);
}

}  // namespace

void ops::check_index_counts(const char* operation, const Shape& shape, std::size_t consumed,
                             std::size_t ellipses) {
  if (ellipses > 1) {
    throw IndexError(message(operation, ": ", ellipses, " ellipses were given (allowed: one)"));
  }
  if (consumed > shape.size()) {
    throw IndexError(message(operation, ": ", consumed, " indices were given for shape ", shape,
                             " (allowed: at most ", shape.size(), ")"));
  }
}

Tensor ops::basic_view(const char* operation, const Tensor& x, std::span<const Index> index) {
  const TensorImpl& tensor = x.impl();
  const std::size_t rank = tensor.shape.size();
  std::size_t consumed = 0;
  std::size_t ellipses = 0;
  for (const Index& entry : index) {
    ellipses += entry.kind() == Index::Kind::ellipsis;
    consumed += entry.kind() == Index::Kind::integer || entry.kind() == Index::Kind::slice;
  }
  check_index_counts(operation, tensor.shape, consumed, ellipses);
  Selected selected{tensor.data, {}, {}};
  std::size_t axis = 0;
  for (const Index& entry : index) {
    switch (entry.kind()) {
      case Index::Kind::integer:
        take_position(operation, tensor, axis++, entry.integer(), selected);
        break;
      case Index::Kind::slice:
        take_slice(operation, tensor, axis++, entry.slice(), selected);
        break;
      case Index::Kind::ellipsis:
        for (std::size_t whole = rank - consumed; whole != 0; --whole) {
          keep_axis(tensor, axis++, selected);
        }
        break;
      case Index::Kind::newaxis:
        selected.shape.push_back(1);
        selected.strides.push_back(1);
        break;
      case Index::Kind::tensor:
        break;  // IndexPlan replaces tensors by slices
    }
  }
  while (axis < rank) keep_axis(tensor, axis++, selected);
  detail::checked_numel(operation, selected.shape);  // newaxis may exceed the maximum rank
  return detail::make_view(x, selected.data, selected.shape, selected.strides);
}

// ---- views

namespace {

struct SliceAttributes {
  std::int64_t axis;
  Slice slice;
};

Tensor make_slice(const Tensor& x, const SliceAttributes& attributes) {
  const TensorImpl& tensor = x.impl();
  const auto rank = static_cast<std::int64_t>(tensor.shape.size());
  const auto axis =
      static_cast<std::size_t>(detail::normalize_axis("slice", attributes.axis, rank));
  Selected selected{tensor.data, {}, {}};
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    if (d == axis) {
      take_slice("slice", tensor, d, attributes.slice, selected);
    } else {
      keep_axis(tensor, d, selected);
    }
  }
  return detail::make_view(x, selected.data, selected.shape, selected.strides);
}

Tensor make_index_view(const Tensor& x, const std::vector<Index>& index) {
  return basic_view("index", x, index);
}

Gradients slice_backward_gradient(const GradientCall& call, const PartOf<SliceAttributes>& of) {
  const auto& [axis, slice] = of.part;
  return call.grad().slice(axis, slice.start, slice.stop, slice.step);
}

Gradients index_view_backward_gradient(const GradientCall& call,
                                       const PartOf<std::vector<Index>>& of) {
  return Tensor(call.grad().index(of.part));
}

constexpr auto slice_backward_op =
    define<part_backward<make_slice, SliceAttributes>, slice_backward_gradient>(
        {.name = "slice_backward", .inputs = {"grad_output"}, .complex = true});
constexpr auto index_view_backward_op =
    define<part_backward<make_index_view, std::vector<Index>>, index_view_backward_gradient>(
        {.name = "index_view_backward", .inputs = {"grad_output"}, .complex = true});

Gradients slice_gradient(const GradientCall& call, const SliceAttributes& attributes) {
  return dispatch(slice_backward_op, {call.shape(), attributes}, call.grad());
}

Gradients index_view_gradient(const GradientCall& call, const std::vector<Index>& index) {
  return dispatch(index_view_backward_op, {call.shape(), index}, call.grad());
}

constexpr auto slice_op = define_view<make_slice, slice_gradient>("slice", shape());
constexpr auto index_view_op =
    define_view<make_index_view, index_view_gradient>("index_view", shape());

}  // namespace

Tensor Tensor::slice(StrictInt axis, std::optional<StrictInt> start, std::optional<StrictInt> stop,
                     StrictInt step) const {
  return ops::view<make_slice>(slice_op, *this, {axis, {start, stop, step}});
}

Tensor slice_backward(const Tensor& grad_output, const Shape& input_shape, StrictInt axis,
                      std::optional<StrictInt> start, std::optional<StrictInt> stop,
                      StrictInt step) {
  return dispatch(slice_backward_op, {input_shape, {axis, {start, stop, step}}}, grad_output);
}

// ---- selections by tensors

namespace {

Tensor index_forward(const Run& run, const IndexAttribute& attribute, Inputs inputs) {
  return IndexPlan(run.name(), inputs[0], attribute.of(inputs)).select(inputs[0]);
}

Gradients index_gradient(const GradientCall& call, const IndexAttribute& attribute) {
  return slice_backward(call.grad(), call.shape(), attribute.of(call));
}

Tensor index_backward(const Run&, const PartOf<IndexAttribute>& of, Inputs inputs) {
  constexpr const char* operation = "slice_backward";
  const Tensor& grad_output = inputs[0];
  const auto& [shape, index] = of;
  const IndexPlan plan(operation,
                       zeros({}, {grad_output.dtype(), grad_output.device()}).broadcast_to(shape),
                       index.of(inputs));
  check_grad_output(operation, grad_output, plan.result_shape());
  return plan.sum(grad_output, shape);
}

Gradients index_backward_gradient(const GradientCall& call, const PartOf<IndexAttribute>& of) {
  return Tensor(call.grad().index(of.part.of(call)));
}

Reads index_reads(const IndexAttribute&, std::size_t k) {
  return k == 0 ? constants | shape() : no_gradient;
}
Reads index_backward_reads(const PartOf<IndexAttribute>&, std::size_t k) {
  return k == 0 ? constants : no_gradient;
}

constexpr auto index_op = define<index_forward, index_gradient, index_reads>(
    {.name = "index", .inputs = {"x", "tensors of the index"}, .complex = true});
constexpr auto index_backward_op =
    define<index_backward, index_backward_gradient, index_backward_reads>(
        {.name = "index_backward",
         .inputs = {"grad_output", "tensors of the index"},
         .complex = true});

IndexedTensor copied_by(const Tensor& x, std::span<const Index> index) {
  auto selection = std::make_unique<detail::Selection>(
      detail::Selection{x, {index.begin(), index.end()}, std::nullopt});
  Tensor selected;
  if (is_observed(x)) {
    const auto inputs = index_inputs({&x}, index);
    const IndexAttribute attribute = index_attribute(index, 1);
    selected = dispatch(index_op, &attribute, Inputs(inputs.data(), inputs.size()))[0];
  } else {
    selected = selection->plan.emplace("index", x, index).select(x);
  }
  return {std::move(selected), selection.release()};
}

}  // namespace

IndexedTensor Tensor::index_with(const Index* first, std::size_t count) const {
  const std::span index(first, count);
  if (has_tensor(index)) return copied_by(*this, index);
  if (!is_observed(*this)) {
    return IndexedTensor(detail::as_view_of(*this, basic_view("index", *this, index)));
  }
  return IndexedTensor(dispatch(index_view_op, {first, first + count}, *this));
}

Tensor select(const Tensor& x, StrictInt axis, StrictInt index) {
  constexpr const char* operation = "select";
  const auto along = static_cast<std::size_t>(detail::normalize_axis(operation, axis, x.ndim()));
  check_position(operation, x.shape(), along, index);
  std::vector<Index> parts(along, Index(Slice{}));
  parts.emplace_back(static_cast<std::int64_t>(index));
  return x.index(parts);
}

Tensor slice_backward(const Tensor& grad_output, const Shape& input_shape,
                      const std::vector<Index>& index) {
  if (!has_tensor(index))
    return dispatch(index_view_backward_op, {input_shape, index}, grad_output);
  const auto inputs = index_inputs({&grad_output}, index);
  const PartOf<IndexAttribute> attributes{input_shape, index_attribute(index, 1)};
  return dispatch(index_backward_op, &attributes, Inputs(inputs.data(), inputs.size()))[0];
}

constinit const OpList ops::index_expression_ops =
    listed<slice_op, slice_backward_op, index_view_op, index_view_backward_op, index_op,
           index_backward_op>;

}  // namespace extensor
