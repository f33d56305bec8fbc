// The views of Tensor: the same memory under another shape and other strides.
#include <algorithm>

#include "core/check.h"
#include "core/graph.h"
#include "core/make_tensor.h"
#include "extensor/broadcasting.h"
#include "extensor/manipulation.h"
#include "extensor/matrix.h"
#include "extensor/tensor.h"

namespace extensor {

using detail::message;
using detail::TensorImpl;

namespace {

// A view as a function of its base; `backward` takes the gradient and the base's shape.
template <class Backward>
Tensor view_of(const Tensor& base, const char* name, std::byte* data, const Shape& shape,
               const Strides& strides, Backward backward) {
  Tensor view = detail::make_view(base, data, shape, strides);
  if (detail::records(base)) {
    view = detail::record(
        name, {base}, std::move(view),
        [from = base.shape(), backward](const Tensor& g) { return backward(g, from); });
  }
  return detail::as_view_of(base, std::move(view));
}

Tensor reshaped(const Tensor& base, const Shape& shape, const Strides& strides) {
  return view_of(base, "reshape", base.impl().data, shape, strides, reshape_backward);
}

}  // namespace

// ---- reshape
// ---------------------------------------------------------------------------------------

namespace {

// The shape with its −1 replaced by what fits `numel`.
Shape resolve_shape(const Shape& asked, const Shape& from, std::int64_t numel) {
  constexpr std::size_t none = SIZE_MAX;
  std::size_t unknown = none;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (asked[i] != -1) continue;
    if (unknown != none) {
      throw ShapeError(message("reshape: shape ", asked, " has more than one -1 (allowed: one)"));
    }
    unknown = i;
  }
  Shape shape = asked;
  if (unknown != none) shape[unknown] = 1;
  const std::int64_t known = detail::checked_numel("reshape", shape);
  if (unknown != none) {
    if (known == 0) {
      throw ShapeError(message("reshape: the -1 in shape ", asked,
                               " could be anything beside a dimension of size 0 (from shape ", from,
                               "; give the size)"));
    }
    if (numel % known == 0) {
      shape[unknown] = numel / known;
      return shape;
    }
  }
  if (unknown != none || known != numel) {
    throw ShapeError(message("reshape: a tensor of shape ", from, " with ", numel,
                             " elements does not fit shape ", asked));
  }
  return shape;
}

// Strides under which `shape` walks the same memory in the same order, if there are any. Both
// shapes have the same number of elements, at least one.
std::optional<Strides> view_strides(const TensorImpl& tensor, const Shape& shape) {
  Strides strides(shape.size(), 0);
  auto axis = static_cast<std::ptrdiff_t>(shape.size()) - 1;
  // From the back, take runs of old dimensions that merge into one, and cut each into new ones.
  auto old_axis = static_cast<std::ptrdiff_t>(tensor.shape.size()) - 1;
  while (old_axis >= 0) {
    std::int64_t run = tensor.shape[static_cast<std::size_t>(old_axis)];
    std::int64_t step = tensor.strides[static_cast<std::size_t>(old_axis)];
    --old_axis;
    if (run == 1) continue;
    std::int64_t reach = step * run;
    while (old_axis >= 0) {
      const auto next = static_cast<std::size_t>(old_axis);
      if (tensor.shape[next] != 1) {
        if (tensor.strides[next] != reach) break;
        run *= tensor.shape[next];
        reach *= tensor.shape[next];
      }
      --old_axis;
    }
    while (run > 1 && axis >= 0) {
      const std::int64_t size = shape[static_cast<std::size_t>(axis)];
      if (run % size != 0) return std::nullopt;
      strides[static_cast<std::size_t>(axis)] = step;
      step *= size;
      run /= size;
      --axis;
    }
  }
  // What is left in front are dimensions of size 1: any stride does.
  for (; axis >= 0; --axis) {
    const auto position = static_cast<std::size_t>(axis);
    strides[position] =
        position + 1 < shape.size() ? shape[position + 1] * strides[position + 1] : 1;
  }
  return strides;
}

}  // namespace

Tensor Tensor::reshape(const Shape& asked) const {
  const TensorImpl& tensor = impl();
  const Shape shape = resolve_shape(asked, tensor.shape, tensor.numel);
  if (shape == tensor.shape) return *this;
  if (tensor.contiguous) {
    return reshaped(*this, shape, detail::contiguous_strides(shape));
  }
  if (const auto strides = view_strides(tensor, shape)) return reshaped(*this, shape, *strides);
  return contiguous().reshape(shape);
}

Tensor Tensor::flatten() const { return reshape({numel()}); }

// ---- axes
// ------------------------------------------------------------------------------------------

Tensor Tensor::transpose() const {
  const TensorImpl& tensor = impl();
  if (tensor.shape.size() < 2) return *this;
  Shape shape = tensor.shape;
  Strides strides = tensor.strides;
  std::reverse(shape.begin(), shape.end());
  std::reverse(strides.begin(), strides.end());
  return view_of(*this, "transpose", tensor.data, shape, strides,
                 [](const Tensor& g, const Shape&) { return transpose_backward(g); });
}

Tensor Tensor::transpose(const Dims& axes) const {
  const TensorImpl& tensor = impl();
  const auto rank = static_cast<std::int64_t>(tensor.shape.size());
  if (static_cast<std::int64_t>(axes.size()) != rank) {
    throw ShapeError(message("transpose: ", axes.size(), " axes ", axes,
                             " were given for a tensor of shape ", tensor.shape,
                             " (allowed: a permutation of its ", rank, " axes)"));
  }
  detail::normalize_axes("transpose", axes, rank);  // for its checks: range and repetition
  Shape shape(axes.size(), 0);
  Strides strides(axes.size(), 0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto from = static_cast<std::size_t>(axes[i] < 0 ? axes[i] + rank : axes[i]);
    shape[i] = tensor.shape[from];
    strides[i] = tensor.strides[from];
  }
  return view_of(*this, "transpose", tensor.data, shape, strides,
                 [axes](const Tensor& g, const Shape&) { return transpose_backward(g, axes); });
}

Tensor Tensor::squeeze(const Axes& axes) const {
  const TensorImpl& tensor = impl();
  const auto rank = static_cast<std::int64_t>(tensor.shape.size());
  const Dims removed = detail::normalize_axes("squeeze", axes, rank);
  Shape shape;
  Strides strides;
  std::size_t next = 0;
  for (std::int64_t axis = 0; axis < rank; ++axis) {
    const auto position = static_cast<std::size_t>(axis);
    const bool named = next < removed.size() && removed[next] == axis;
    if (named) ++next;
    if (named && tensor.shape[position] == 1) continue;
    if (named && !axes.all()) {
      throw ShapeError(message("squeeze: axis ", axis, " of shape ", tensor.shape, " has size ",
                               tensor.shape[position], " (allowed: 1)"));
    }
    shape.push_back(tensor.shape[position]);
    strides.push_back(tensor.strides[position]);
  }
  return view_of(*this, "squeeze", tensor.data, shape, strides, squeeze_backward);
}

Tensor Tensor::unsqueeze(StrictInt axis) const {
  const TensorImpl& tensor = impl();
  const auto rank = static_cast<std::int64_t>(tensor.shape.size());
  const auto position =
      static_cast<std::size_t>(detail::normalize_axis("unsqueeze", axis, rank + 1));
  Shape shape = tensor.shape;
  Strides strides = tensor.strides;
  shape.insert(position, 1);
  strides.insert(position, 1);
  detail::checked_numel("unsqueeze", shape);
  return view_of(*this, "unsqueeze", tensor.data, shape, strides, reshape_backward);
}

Tensor Tensor::broadcast_to(const Shape& shape) const {
  const TensorImpl& tensor = impl();
  const std::int64_t numel = detail::checked_numel("broadcast_to", shape);
  detail::checked_bytes("broadcast_to", numel, tensor.dtype);
  const auto fail = [&] {
    throw ShapeError(message("broadcast_to: a tensor of shape ", tensor.shape,
                             " does not broadcast to ", shape,
                             " (allowed: only dimensions of size 1 grow, new ones in front)"));
  };
  if (tensor.shape.size() > shape.size()) fail();
  const std::size_t added = shape.size() - tensor.shape.size();
  Strides strides(shape.size(), 0);
  for (std::size_t i = added; i < shape.size(); ++i) {
    const std::int64_t size = tensor.shape[i - added];
    if (size == shape[i]) {
      strides[i] = tensor.strides[i - added];
    } else if (size != 1) {
      fail();
    }
  }
  return view_of(*this, "broadcast_to", tensor.data, shape, strides, broadcast_to_backward);
}

}  // namespace extensor
