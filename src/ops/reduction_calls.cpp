// Reductions with a dtype, and extremes together with their positions.
#include "core/check.h"
#include "extensor/creation.h"
#include "extensor/cumulative.h"
#include "extensor/manipulation.h"
#include "extensor/reduction.h"
#include "extensor/softmax.h"

namespace extensor {

namespace {

void check_float_dtype(const char* operation, DType dtype) {
  detail::check_dtype(operation, dtype);
  if (is_differentiable(dtype)) return;
  throw DTypeError(detail::message(operation, ": dtype is ", dtype, ", must be a float dtype"));
}

// Rounds halves once: the reduction runs in the dtype of the result or a wider one.
Tensor converted(const char* operation, const Tensor& x, DType dtype) {
  detail::check_dtype(operation, dtype);
  return x.to(dtype);
}

// `result` with its initial value before the first element. A 0-d tensor counts as a row of one.
Tensor with_initial(const Tensor& result, const std::optional<StrictInt>& axis, double initial) {
  const Tensor rows = result.ndim() == 0 ? result.reshape({1}) : result;
  const std::int64_t along = detail::normalize_axis(
      "concatenate", axis ? static_cast<std::int64_t>(*axis) : 0, rows.ndim());
  Shape shape = rows.shape();
  shape[static_cast<std::size_t>(along)] = 1;
  return concatenate({full(shape, initial, {rows.dtype(), rows.device()}), rows}, along);
}

Axes axes_of(const std::optional<StrictInt>& axis) {
  return axis ? Axes(static_cast<std::int64_t>(*axis)) : Axes();
}

}  // namespace

Tensor sum(const Tensor& x, const Axes& axes, StrictBool keepdims, DType dtype) {
  return sum(converted("sum", x, dtype), axes, keepdims).to(dtype);
}

Tensor mean(const Tensor& x, const Axes& axes, StrictBool keepdims, DType dtype) {
  check_float_dtype("mean", dtype);
  return mean(x.to(dtype), axes, keepdims);
}

Tensor prod(const Tensor& x, const Axes& axes, StrictBool keepdims, DType dtype) {
  return prod(converted("prod", x, dtype), axes, keepdims).to(dtype);
}

Tensor cumulative_sum(const Tensor& x, std::optional<StrictInt> axis, DType dtype) {
  return cumulative_sum(converted("cumulative_sum", x, dtype), axis).to(dtype);
}

Tensor cumulative_prod(const Tensor& x, std::optional<StrictInt> axis, DType dtype) {
  return cumulative_prod(converted("cumulative_prod", x, dtype), axis).to(dtype);
}

Tensor cumulative_sum(const Tensor& x, std::optional<StrictInt> axis,
                      const CumulativeOptions& options) {
  const Tensor result =
      options.dtype ? cumulative_sum(x, axis, *options.dtype) : cumulative_sum(x, axis);
  return options.include_initial ? with_initial(result, axis, 0) : result;
}

Tensor cumulative_prod(const Tensor& x, std::optional<StrictInt> axis,
                       const CumulativeOptions& options) {
  const Tensor result =
      options.dtype ? cumulative_prod(x, axis, *options.dtype) : cumulative_prod(x, axis);
  return options.include_initial ? with_initial(result, axis, 1) : result;
}

Tensor softmax(const Tensor& x, StrictInt axis, DType dtype) {
  check_float_dtype("softmax", dtype);
  return softmax(x.to(dtype), axis);
}

Tensor log_softmax(const Tensor& x, StrictInt axis, DType dtype) {
  check_float_dtype("log_softmax", dtype);
  return log_softmax(x.to(dtype), axis);
}

ValuesWithIndices max_with_indices(const Tensor& x, std::optional<StrictInt> axis,
                                   StrictBool keepdims) {
  return {max_reduce(x, axes_of(axis), keepdims), argmax(x, axis, keepdims)};
}

ValuesWithIndices min_with_indices(const Tensor& x, std::optional<StrictInt> axis,
                                   StrictBool keepdims) {
  return {min_reduce(x, axes_of(axis), keepdims), argmin(x, axis, keepdims)};
}

}  // namespace extensor
