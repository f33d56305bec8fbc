// Reductions over all axes, one axis or a list of axes, and their explicit gradients.
//
//   Tensor s = extensor::sum(x, {0, 2}, true);             // keepdims
//   Tensor g = extensor::sum_backward(grad, x.shape(), {0, 2}, true);
//
// Every backward takes the gradient in the shape of the forward's result, with or without keepdims:
// the shape distinguishes the two.
#pragma once

#include <concepts>

#include "extensor/elementwise.h"
#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

// Integers and bool sum to int64 (uint64 for unsigned); floats keep their dtype and are summed
// pairwise in float32 or wider.
Tensor sum(const Tensor& x, const Axes& axes = {}, StrictBool keepdims = false);
// The same on x converted to the dtype, which the result has.
Tensor sum(const Tensor& x, const Axes& axes, StrictBool keepdims, DType dtype);
template <std::same_as<DType> T>
Tensor sum(const Tensor& x, T dtype) {
  return sum(x, {}, false, dtype);
}
Tensor sum_backward(const Tensor& grad_output, const Shape& input_shape, const Axes& axes = {});

// Integers yield float32. The mean of no elements is NaN.
Tensor mean(const Tensor& x, const Axes& axes = {}, StrictBool keepdims = false);
// DTypeError unless the dtype is a float.
Tensor mean(const Tensor& x, const Axes& axes, StrictBool keepdims, DType dtype);
template <std::same_as<DType> T>
Tensor mean(const Tensor& x, T dtype) {
  return mean(x, {}, false, dtype);
}
Tensor mean_backward(const Tensor& grad_output, const Shape& input_shape, const Axes& axes = {});

// NaN propagates; ValueError for no elements. Ties share the gradient equally.
Tensor max_reduce(const Tensor& x, const Axes& axes = {}, StrictBool keepdims = false);
Tensor max_reduce_backward(const Tensor& grad_output, const Tensor& x, const Axes& axes = {});
Tensor min_reduce(const Tensor& x, const Axes& axes = {}, StrictBool keepdims = false);
Tensor min_reduce_backward(const Tensor& grad_output, const Tensor& x, const Axes& axes = {});

// The largest or smallest element along one axis, or of all, and the position of the first one
// (int64): max_reduce and argmax together. Gradients go to the values, by the rule of max_reduce.
struct ValuesWithIndices {
  Tensor values, indices;
};
ValuesWithIndices max_with_indices(const Tensor& x, std::optional<StrictInt> axis = {},
                                   StrictBool keepdims = false);
ValuesWithIndices min_with_indices(const Tensor& x, std::optional<StrictInt> axis = {},
                                   StrictBool keepdims = false);

// The gradient is also exact where elements are 0.
Tensor prod(const Tensor& x, const Axes& axes = {}, StrictBool keepdims = false);
Tensor prod(const Tensor& x, const Axes& axes, StrictBool keepdims, DType dtype);
template <std::same_as<DType> T>
Tensor prod(const Tensor& x, T dtype) {
  return prod(x, {}, false, dtype);
}
Tensor prod_backward(const Tensor& grad_output, const Tensor& x, const Axes& axes = {});

// The sum of squared deviations over n − correction; NaN if correction ≥ n.
Tensor var(const Tensor& x, const Axes& axes = {}, StrictDouble correction = 0,
           StrictBool keepdims = false);
Tensor var_backward(const Tensor& grad_output, const Tensor& x, const Axes& axes = {},
                    StrictDouble correction = 0);
// The square root of the variance. After `using namespace extensor` the unqualified name std is
// ambiguous between this function and the namespace ::std: write extensor::std(x) or
// standard_deviation(x).
Tensor std(const Tensor& x, const Axes& axes = {}, StrictDouble correction = 0,
           StrictBool keepdims = false);
Tensor std_backward(const Tensor& grad_output, const Tensor& x, const Axes& axes = {},
                    StrictDouble correction = 0, StrictDouble eps = default_eps);

Tensor all(const Tensor& x, const Axes& axes = {}, StrictBool keepdims = false);
Tensor any(const Tensor& x, const Axes& axes = {}, StrictBool keepdims = false);

// The position (int64) of the first largest or smallest element; NaN counts as both. Without an
// axis, the position in the flattened tensor. ValueError for no elements.
Tensor argmax(const Tensor& x, std::optional<StrictInt> axis = {}, StrictBool keepdims = false);
Tensor argmin(const Tensor& x, std::optional<StrictInt> axis = {}, StrictBool keepdims = false);

// The number of elements that are not 0, as int64; NaN counts.
Tensor count_nonzero(const Tensor& x, const Axes& axes = {}, StrictBool keepdims = false);

// The vector norm (Σ |x|^p)^(1/p) for any p: 2; 1; ±infinity, the largest or smallest magnitude; 0,
// the number of elements that are not 0. Intermediate values do not overflow or underflow unless
// the norm does. Integers yield float32. The norm of no elements is 0 for a finite p ≥ 0;
// ValueError for other p, and for p = NaN.
Tensor norm(const Tensor& x, StrictDouble p = 2, const Axes& axes = {},
            StrictBool keepdims = false);
// Ties for p = ±infinity share the gradient equally; it is 0 wherever x is 0.
Tensor norm_backward(const Tensor& grad_output, const Tensor& x, StrictDouble p = 2,
                     const Axes& axes = {}, StrictDouble eps = default_eps);

inline Tensor standard_deviation(const Tensor& x, const Axes& axes = {},
                                 StrictDouble correction = 0, StrictBool keepdims = false) {
  return extensor::std(x, axes, correction, keepdims);
}

// The names of the Python Array API.
inline Tensor max(const Tensor& x, const Axes& axes = {}, StrictBool keepdims = false) {
  return max_reduce(x, axes, keepdims);
}
inline Tensor min(const Tensor& x, const Axes& axes = {}, StrictBool keepdims = false) {
  return min_reduce(x, axes, keepdims);
}

}  // namespace extensor

EXTENSOR_END_API
