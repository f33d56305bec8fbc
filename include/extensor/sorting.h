// Order: sorting, the largest, the place of a value, what is there once. Equal elements keep their
// order; NaN is last in either direction.
//
//   auto [values, indices] = extensor::topk(scores, 5);
//   Tensor grad = extensor::topk_backward(g, scores.shape(), indices);
#pragma once

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

struct SortedTensor {
  Tensor values;
  Tensor indices;  // int64, positions along the axis
};

// Along one axis; a 0-d tensor is a row of one.
Tensor sort(const Tensor& x, StrictInt axis = -1, StrictBool descending = false);
Tensor argsort(const Tensor& x, StrictInt axis = -1, StrictBool descending = false);
SortedTensor sort_with_indices(const Tensor& x, StrictInt axis = -1, StrictBool descending = false);
// `indices` as argsort gave them.
Tensor sort_backward(const Tensor& grad_output, const Tensor& indices, StrictInt axis = -1);

// The k largest (or smallest) along an axis, in order; `sorted = false` allows any order. The lower
// position first among equals; NaN comes after all numbers. ValueError when k is below 0 or beyond
// the axis. Of a 0-d tensor k is 1, and both results are 0-d.
SortedTensor topk(const Tensor& x, StrictInt k, StrictInt axis = -1, StrictBool largest = true,
                  StrictBool sorted = true);
Tensor topk_backward(const Tensor& grad_output, const Shape& input_shape, const Tensor& indices,
                     StrictInt axis = -1);

// Where each value would go into an ascending row so that it stays ascending: before elements equal
// to it, or behind them with `right`. `sorted` has one dimension, or the leading dimensions of
// `values` and rows of its own. int64, the shape of values.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, StrictBool right = false);

struct UniqueTensor {
  Tensor values;   // ascending, one dimension; every NaN is one of its own
  Tensor indices;  // int64: where each first occurs in x flattened
  Tensor inverse;  // int64, the shape of x: values[inverse] is x
  Tensor counts;   // int64: how often each occurs
};
Tensor unique(const Tensor& x);
UniqueTensor unique_all(const Tensor& x);

}  // namespace extensor

EXTENSOR_END_API
