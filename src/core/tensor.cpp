// The views of Tensor: the same memory under another shape and other strides.
#include "extensor/tensor.h"

#include <algorithm>

#include "core/check.h"
#include "core/convert.h"
#include "core/make_tensor.h"
#include "core/visit.h"

namespace extensor {

using detail::message;
using detail::TensorImpl;

namespace detail {

void throw_undefined_tensor() {
  throw ValueError(
      "tensor: an undefined tensor was used (allowed: one that holds data; a default "
      "constructed Tensor holds none)");
}

void throw_dtype_mismatch(const char* operation, DType actual, DType asked) {
  throw DTypeError(message(operation, ": the tensor is ", actual, ", asked for as ", asked,
                           " (convert it with to() first)"));
}

}  // namespace detail

std::int64_t Tensor::size(std::int64_t axis) const {
  const Shape& sizes = shape();
  const auto position =
      detail::normalize_axis("size", axis, static_cast<std::int64_t>(sizes.size()));
  return sizes[static_cast<std::size_t>(position)];
}

void Tensor::read_item(DType dtype, void* result) const {
  const TensorImpl& tensor = impl();
  if (tensor.numel != 1) {
    throw ValueError(message("item: a tensor of shape ", tensor.shape, " has ", tensor.numel,
                             " elements (allowed: exactly one)"));
  }
  if (tensor.storage->device != cpu_device) {
    throw DeviceError(
        message("item: the tensor is on ", tensor.storage->device, " (allowed: cpu)"));
  }
  detail::visit_dtype(tensor.dtype, [&]<class From>() {
    detail::visit_dtype(dtype, [&]<class To>() {
      *static_cast<To*>(result) = detail::convert<To>(*reinterpret_cast<const From*>(tensor.data));
    });
  });
}

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
    return detail::make_view(*this, tensor.data, shape, detail::contiguous_strides(shape));
  }
  if (const auto strides = view_strides(tensor, shape)) {
    return detail::make_view(*this, tensor.data, shape, *strides);
  }
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
  return detail::make_view(*this, tensor.data, shape, strides);
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
  return detail::make_view(*this, tensor.data, shape, strides);
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
  return detail::make_view(*this, tensor.data, shape, strides);
}

Tensor Tensor::unsqueeze(std::int64_t axis) const {
  const TensorImpl& tensor = impl();
  const auto rank = static_cast<std::int64_t>(tensor.shape.size());
  const auto position =
      static_cast<std::size_t>(detail::normalize_axis("unsqueeze", axis, rank + 1));
  Shape shape = tensor.shape;
  Strides strides = tensor.strides;
  shape.insert(position, 1);
  strides.insert(position, 1);
  detail::checked_numel("unsqueeze", shape);
  return detail::make_view(*this, tensor.data, shape, strides);
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
  return detail::make_view(*this, tensor.data, shape, strides);
}

}  // namespace extensor
