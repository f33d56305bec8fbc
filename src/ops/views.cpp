// The views of Tensor: the same memory with another shape and strides.
#include <algorithm>

#include "core/check.h"
#include "core/make_tensor.h"
#include "extensor/broadcasting.h"
#include "extensor/manipulation.h"
#include "extensor/matrix.h"
#include "ops/axis_view.h"
#include "ops/registry.h"
#include "ops/view_op.h"

namespace extensor {

namespace {

using detail::message;
using detail::TensorImpl;
using namespace ops;

// The attributes of a view are its arguments, so that no call copies them.
template <Tensor (*backward)(const Tensor&, const Shape&), class Attributes>
Gradients gradient_by_shape(const GradientCall& call, const Attributes&) {
  return backward(call.grad(), call.shape());
}

}  // namespace

// ---- reshape

namespace {

// The shape with −1 replaced by the size that fits `numel`.
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

// Strides with which `shape` traverses the same memory in the same order, if they exist. Both
// shapes have the same number of elements, at least one.
std::optional<Strides> view_strides(const TensorImpl& tensor, const Shape& shape) {
  Strides strides(shape.size(), 0);
  auto axis = static_cast<std::ptrdiff_t>(shape.size()) - 1;
  // From the last axis, merge runs of old dimensions into one, and split each into new ones.
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
  // The remaining leading dimensions have size 1, so their strides are arbitrary.
  for (; axis >= 0; --axis) {
    const auto position = static_cast<std::size_t>(axis);
    strides[position] =
        position + 1 < shape.size() ? shape[position + 1] * strides[position + 1] : 1;
  }
  return strides;
}

// A view of x, or of a copy if the strides of x do not allow a view.
Tensor make_reshaped(const Tensor& x, const Shape& shape) {
  const TensorImpl& tensor = x.impl();
  const std::optional<Strides> strides =
      tensor.contiguous ? detail::contiguous_strides(shape) : view_strides(tensor, shape);
  if (!strides) return make_reshaped(x.contiguous(), shape);
  return detail::make_view(x, tensor.data, shape, *strides);
}

constexpr auto reshape_op =
    define_view<make_reshaped, gradient_by_shape<reshape_backward, Shape>>("reshape", shape());

}  // namespace

Tensor Tensor::reshape(const Shape& asked) const {
  const TensorImpl& tensor = impl();
  const Shape shape = resolve_shape(asked, tensor.shape, tensor.numel);
  if (shape == tensor.shape) return *this;
  if (tensor.contiguous) return ops::view<make_reshaped>(reshape_op, *this, shape);
  const auto strides = view_strides(tensor, shape);
  if (!strides) return contiguous().reshape(shape);
  if (is_observed(*this)) return dispatch(reshape_op, shape, *this);
  return detail::as_view_of(*this, detail::make_view(*this, tensor.data, shape, *strides));
}

Tensor Tensor::view(const Shape& asked) const {
  const TensorImpl& tensor = impl();
  const Shape shape = resolve_shape(asked, tensor.shape, tensor.numel);
  if (tensor.numel != 0 && !tensor.contiguous && !view_strides(tensor, shape)) {
    throw ShapeError(message("view: shape ", shape, " needs a copy of a tensor of shape ",
                             tensor.shape, " and strides ", tensor.strides,
                             " (allowed: a shape that its strides can express; reshape copies)"));
  }
  return reshape(shape);
}

Tensor Tensor::flatten(StrictInt first, StrictInt last) const {
  const Shape& from = impl().shape;
  const std::int64_t rank = std::max<std::int64_t>(1, rank_of(from));
  const std::int64_t begin = detail::normalize_axis("flatten", first, rank);
  const std::int64_t end = detail::normalize_axis("flatten", last, rank);
  if (begin > end) {
    throw ValueError(message("flatten: first is ", first, " and last is ", last, " for shape ",
                             from, " (allowed: first not after last)"));
  }
  if (from.empty()) return reshape({1});
  Shape shape;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (d <= begin || d > end) {
      shape.push_back(from[at(d)]);
    } else {
      shape.back() *= from[at(d)];
    }
  }
  return reshape(shape);
}

// ---- axes

namespace {

// Reverses all axes if none are given.
Tensor make_transposed(const Tensor& x, const Dims& axes) {
  const TensorImpl& tensor = x.impl();
  Shape shape = tensor.shape;
  Strides strides = tensor.strides;
  if (axes.empty()) {
    std::reverse(shape.begin(), shape.end());
    std::reverse(strides.begin(), strides.end());
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t from = axes[i] < 0 ? at(axes[i] + rank_of(shape)) : at(axes[i]);
    shape[i] = tensor.shape[from];
    strides[i] = tensor.strides[from];
  }
  return detail::make_view(x, tensor.data, shape, strides);
}

Gradients transpose_gradient(const GradientCall& call, const Dims& axes) {
  return transpose_backward(call.grad(), axes);
}

Tensor make_squeezed(const Tensor& x, const Axes& axes) {
  const TensorImpl& tensor = x.impl();
  const std::int64_t rank = rank_of(tensor.shape);
  const Dims removed = detail::normalize_axes("squeeze", axes, rank);
  Shape shape;
  Strides strides;
  std::size_t next = 0;
  for (std::int64_t axis = 0; axis < rank; ++axis) {
    const std::int64_t size = tensor.shape[at(axis)];
    const bool named = next < removed.size() && removed[next] == axis;
    if (named) ++next;
    if (named && size == 1) continue;
    if (named && !axes.all()) {
      throw ShapeError(message("squeeze: axis ", axis, " of shape ", tensor.shape, " has size ",
                               size, " (allowed: 1)"));
    }
    shape.push_back(size);
    strides.push_back(tensor.strides[at(axis)]);
  }
  return detail::make_view(x, tensor.data, shape, strides);
}

Tensor make_unsqueezed(const Tensor& x, const std::int64_t& axis) {
  const TensorImpl& tensor = x.impl();
  const std::size_t position =
      at(detail::normalize_axis("unsqueeze", axis, rank_of(tensor.shape) + 1));
  Shape shape = tensor.shape;
  Strides strides = tensor.strides;
  shape.insert(position, 1);
  strides.insert(position, 1);
  detail::checked_numel("unsqueeze", shape);
  return detail::make_view(x, tensor.data, shape, strides);
}

Tensor make_broadcast(const Tensor& x, const Shape& shape) {
  const TensorImpl& tensor = x.impl();
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
  return detail::make_view(x, tensor.data, shape, strides);
}

constexpr auto transpose_op = define_view<make_transposed, transpose_gradient>("transpose");
constexpr auto squeeze_op =
    define_view<make_squeezed, gradient_by_shape<squeeze_backward, Axes>>("squeeze", shape());
constexpr auto unsqueeze_op =
    define_view<make_unsqueezed, gradient_by_shape<reshape_backward, std::int64_t>>("unsqueeze",
                                                                                    shape());
constexpr auto broadcast_to_op =
    define_view<make_broadcast, gradient_by_shape<broadcast_to_backward, Shape>>("broadcast_to",
                                                                                 shape());

}  // namespace

Tensor Tensor::transpose() const {
  if (ndim() < 2) return *this;
  return ops::view<make_transposed>(transpose_op, *this, {});
}

Tensor Tensor::transpose(const Dims& axes) const {
  const Shape& shape = impl().shape;
  if (axes.size() != shape.size()) {
    throw ShapeError(message("transpose: ", axes.size(), " axes ", axes,
                             " were given for a tensor of shape ", shape,
                             " (allowed: a permutation of its ", shape.size(), " axes)"));
  }
  detail::normalize_axes("transpose", axes, rank_of(shape));  // for its checks: range, repetition
  return ops::view<make_transposed>(transpose_op, *this, axes);
}

Tensor Tensor::squeeze(const Axes& axes) const {
  return ops::view<make_squeezed>(squeeze_op, *this, axes);
}

Tensor Tensor::unsqueeze(StrictInt axis) const {
  return ops::view<make_unsqueezed>(unsqueeze_op, *this, axis);
}

Tensor Tensor::broadcast_to(const Shape& shape) const {
  return ops::view<make_broadcast>(broadcast_to_op, *this, shape);
}

constinit const OpList ops::view_ops =
    listed<reshape_op, transpose_op, squeeze_op, unsqueeze_op, broadcast_to_op>;

}  // namespace extensor
