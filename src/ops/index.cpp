// Slices and basic indexing: views of a part of a tensor.
#include <algorithm>

#include "core/check.h"
#include "core/graph.h"
#include "core/make_tensor.h"
#include "extensor/indexing.h"
#include "extensor/tensor.h"
#include "ops/advanced_index.h"
#include "ops/selection.h"

namespace extensor {

using detail::message;
using detail::TensorImpl;

namespace {

// Which positions of an axis a slice keeps: first, first + step, … `count` of them.
struct Range {
  std::int64_t first;
  std::int64_t count;
};

// NumPy's rule: negative bounds count from the end, then every bound is clamped. No bound, however
// far out, overflows.
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
  // The magnitude in unsigned, where that of INT64_MIN exists.
  const std::uint64_t step =
      forward ? static_cast<std::uint64_t>(slice.step) : 0 - static_cast<std::uint64_t>(slice.step);
  const auto count = (static_cast<std::uint64_t>(distance) - 1) / step + 1;
  return {start, static_cast<std::int64_t>(count)};
}

// The view being made by one index expression.
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
  // An empty tensor has no positions, so its pointer stays where it is.
  if (tensor.numel != 0) selected.data += range.first * stride * item;
  selected.shape.push_back(range.count);
  // With at most one position the step is never walked, and its product might overflow.
  selected.strides.push_back(range.count > 1 ? stride * slice.step : stride);
}

void take_position(const char* operation, const TensorImpl& tensor, std::size_t axis,
                   std::int64_t position, Selected& selected) {
  const std::int64_t size = tensor.shape[axis];
  if (position < -size || position >= size) {
    if (size == 0) {
      throw IndexError(message(operation, ": index ", position, " on axis ", axis, " of shape ",
                               tensor.shape, ", which is empty"));
    }
    throw IndexError(message(operation, ": index ", position, " is out of range for axis ", axis,
                             " of shape ", tensor.shape, " (allowed: ", -size, " to ", size - 1,
                             ")"));
  }
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
        break;  // a plan replaces it by slices
    }
  }
  while (axis < rank) keep_axis(tensor, axis++, selected);
  detail::checked_numel(operation, selected.shape);  // newaxis may exceed the highest rank
  return detail::make_view(x, selected.data, selected.shape, selected.strides);
}

IndexedTensor Tensor::index_with(const Index* first, std::size_t count) const {
  const std::span index(first, count);
  if (ops::has_tensor(index)) return ops::select(*this, index);
  Tensor view = ops::basic_view("index", *this, index);
  if (detail::records(*this)) {
    view = detail::record("index", {*this}, std::move(view),
                          [from = shape(), index = std::vector<Index>(first, first + count)](
                              const Tensor& g) { return slice_backward(g, from, index); });
  }
  return IndexedTensor(detail::as_view_of(*this, std::move(view)));
}

Tensor Tensor::slice(StrictInt axis, std::optional<StrictInt> start, std::optional<StrictInt> stop,
                     StrictInt step) const {
  const TensorImpl& tensor = impl();
  const auto rank = static_cast<std::int64_t>(tensor.shape.size());
  const auto sliced = static_cast<std::size_t>(detail::normalize_axis("slice", axis, rank));
  Selected selected{tensor.data, {}, {}};
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    if (i == sliced) {
      take_slice("slice", tensor, i, {start, stop, step}, selected);
    } else {
      keep_axis(tensor, i, selected);
    }
  }
  Tensor view = detail::make_view(*this, selected.data, selected.shape, selected.strides);
  if (detail::records(*this)) {
    view = detail::record("slice", {*this}, std::move(view),
                          [from = tensor.shape, axis, start, stop, step](const Tensor& g) {
                            return slice_backward(g, from, axis, start, stop, step);
                          });
  }
  return detail::as_view_of(*this, std::move(view));
}

}  // namespace extensor
