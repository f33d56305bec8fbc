// Slices and basic indexing: views of a part of a tensor.
#include <algorithm>

#include "core/check.h"
#include "core/graph.h"
#include "core/make_tensor.h"
#include "extensor/indexing.h"
#include "extensor/tensor.h"

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

// The tensor being made by one index expression.
struct Selection {
  std::byte* data;
  Shape shape;
  Strides strides;
};

void take_slice(const char* operation, const TensorImpl& tensor, std::size_t axis,
                const Slice& slice, Selection& selection) {
  const Range range = resolve_slice(operation, slice, tensor.shape[axis]);
  const std::int64_t stride = tensor.strides[axis];
  const auto item = static_cast<std::int64_t>(itemsize(tensor.dtype));
  // An empty tensor has no positions, so its pointer stays where it is.
  if (tensor.numel != 0) selection.data += range.first * stride * item;
  selection.shape.push_back(range.count);
  // With at most one position the step is never walked, and its product might overflow.
  selection.strides.push_back(range.count > 1 ? stride * slice.step : stride);
}

void take_position(const char* operation, const TensorImpl& tensor, std::size_t axis,
                   std::int64_t position, Selection& selection) {
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
    selection.data += (position < 0 ? position + size : position) * tensor.strides[axis] * item;
  }
}

void keep_axis(const TensorImpl& tensor, std::size_t axis, Selection& selection) {
  selection.shape.push_back(tensor.shape[axis]);
  selection.strides.push_back(tensor.strides[axis]);
}

Tensor index_with(const Tensor& base, const Index* first, std::size_t count) {
  const TensorImpl& tensor = base.impl();
  const std::size_t rank = tensor.shape.size();
  std::size_t consumed = 0;
  std::size_t ellipses = 0;
  for (std::size_t i = 0; i < count; ++i) {
    ellipses += first[i].kind() == Index::Kind::ellipsis;
    consumed += first[i].kind() == Index::Kind::integer || first[i].kind() == Index::Kind::slice;
  }
  if (ellipses > 1) {
    throw IndexError(message("index: ", ellipses, " ellipses were given (allowed: one)"));
  }
  if (consumed > rank) {
    throw IndexError(message("index: ", consumed, " indices were given for shape ", tensor.shape,
                             " (allowed: at most ", rank, ")"));
  }
  Selection selection{tensor.data, {}, {}};
  std::size_t axis = 0;
  for (std::size_t i = 0; i < count; ++i) {
    switch (first[i].kind()) {
      case Index::Kind::integer:
        take_position("index", tensor, axis++, first[i].integer(), selection);
        break;
      case Index::Kind::slice:
        take_slice("index", tensor, axis++, first[i].slice(), selection);
        break;
      case Index::Kind::ellipsis:
        for (std::size_t whole = rank - consumed; whole != 0; --whole) {
          keep_axis(tensor, axis++, selection);
        }
        break;
      case Index::Kind::newaxis:
        selection.shape.push_back(1);
        selection.strides.push_back(1);
        break;
    }
  }
  while (axis < rank) keep_axis(tensor, axis++, selection);
  detail::checked_numel("index", selection.shape);  // newaxis may exceed the highest rank
  Tensor view = detail::make_view(base, selection.data, selection.shape, selection.strides);
  if (!detail::records(base)) return view;
  return detail::record("index", {base}, std::move(view),
                        [from = tensor.shape, index = std::vector<Index>(first, first + count)](
                            const Tensor& g) { return slice_backward(g, from, index); });
}

}  // namespace

Tensor Tensor::slice(StrictInt axis, std::optional<StrictInt> start, std::optional<StrictInt> stop,
                     StrictInt step) const {
  const TensorImpl& tensor = impl();
  const auto rank = static_cast<std::int64_t>(tensor.shape.size());
  const auto sliced = static_cast<std::size_t>(detail::normalize_axis("slice", axis, rank));
  Selection selection{tensor.data, {}, {}};
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    if (i == sliced) {
      take_slice("slice", tensor, i, {start, stop, step}, selection);
    } else {
      keep_axis(tensor, i, selection);
    }
  }
  Tensor view = detail::make_view(*this, selection.data, selection.shape, selection.strides);
  if (!detail::records(*this)) return view;
  return detail::record("slice", {*this}, std::move(view),
                        [from = tensor.shape, axis, start, stop, step](const Tensor& g) {
                          return slice_backward(g, from, axis, start, stop, step);
                        });
}

Tensor Tensor::operator[](std::int64_t index) const {
  const Index single(index);
  return index_with(*this, &single, 1);
}

Tensor Tensor::operator[](std::initializer_list<Index> index) const {
  return index_with(*this, index.begin(), index.size());
}

Tensor Tensor::index(const std::vector<Index>& index) const {
  return index_with(*this, index.data(), index.size());
}

}  // namespace extensor
