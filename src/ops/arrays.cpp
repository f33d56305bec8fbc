#include "extensor/arrays.h"

#include <algorithm>

#include "core/check.h"
#include "extensor/broadcasting.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/manipulation.h"
#include "ops/launch.h"

namespace extensor {

namespace {

using detail::message;
using namespace ops;

void check_order(const char* operation, std::int64_t n) {
  if (n < 0) throw ValueError(message(operation, ": n is ", n, " (allowed: 0 or more)"));
}

}  // namespace

std::vector<Tensor> broadcast_arrays(const std::vector<Tensor>& tensors) {
  Shape shape;
  for (const Tensor& x : tensors) {
    if (!are_shapes_broadcastable(shape, x.shape())) {
      throw ShapeError(message("broadcast_arrays: ", x.shape(), " does not broadcast with ", shape,
                               ", the shape of the tensors before it"));
    }
    shape = broadcast_shapes(shape, x.shape());
  }
  std::vector<Tensor> results;
  results.reserve(tensors.size());
  for (const Tensor& x : tensors) results.push_back(x.broadcast_to(shape));
  return results;
}

Tensor concatenate(const std::vector<Tensor>& tensors, std::nullopt_t) {
  std::vector<Tensor> flat;
  flat.reserve(tensors.size());
  for (const Tensor& x : tensors) flat.push_back(flatten(x));
  return concatenate(flat, 0);
}

Tensor diff(const Tensor& x, StrictInt axis, StrictInt n, const Tensor& prepend,
            const Tensor& append) {
  check_order("diff", n);
  const std::int64_t along = detail::normalize_axis("diff", axis, x.ndim());
  Tensor result = x;
  if (n == 0) return result;  // as it is, like in NumPy
  if (prepend.defined() || append.defined()) {
    std::vector<Tensor> parts;
    if (prepend.defined()) parts.push_back(prepend);
    parts.push_back(x);
    if (append.defined()) parts.push_back(append);
    result = concatenate(parts, along);
  }
  for (std::int64_t k = 0; k < n && result.size(along) > 0; ++k) {
    const Tensor next = result.slice(along, 1), previous = result.slice(along, 0, -1);
    result = result.dtype() == DType::bool_ ? not_equal(next, previous) : subtract(next, previous);
  }
  return result;
}

Tensor diff_backward(const Tensor& grad_output, const Shape& input_shape, StrictInt axis,
                     StrictInt n) {
  constexpr const char* operation = "diff_backward";
  check_order(operation, n);
  const std::int64_t along = detail::normalize_axis(operation, axis, input_shape.size());
  const auto at = static_cast<std::size_t>(along);
  Shape expected = input_shape;
  expected[at] = std::max<std::int64_t>(0, input_shape[at] - n);
  check_grad_output(operation, grad_output, expected);
  // Without a result, and without a difference, nothing is added up.
  if (grad_output.numel() == 0) {
    return zeros(input_shape, {grad_output.dtype(), grad_output.device()});
  }
  Padding before(input_shape.size(), {0, 0}), after = before;
  before[at].first = 1;
  after[at].second = 1;
  Tensor result = grad_output;
  for (std::int64_t k = 0; k < n; ++k) result = subtract(pad(result, before), pad(result, after));
  return result;
}

}  // namespace extensor
