// Sorting and searching: sort, top k, insertion positions, unique values. Equal elements keep their
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

// Sorts along one axis; a 0-d tensor counts as a row of one.
Tensor sort(const Tensor& x, StrictInt axis = -1, StrictBool descending = false);
Tensor argsort(const Tensor& x, StrictInt axis = -1, StrictBool descending = false);
SortedTensor sort_with_indices(const Tensor& x, StrictInt axis = -1, StrictBool descending = false);
// `indices` are those of argsort.
Tensor sort_backward(const Tensor& grad_output, const Tensor& indices, StrictInt axis = -1);

// The k largest (or smallest) along an axis, in order; `sorted = false` allows any order. Among
// equal elements the lower position comes first; NaN comes after all numbers. ValueError if k is
// below 0 or exceeds the axis. For a 0-d tensor k is 1, and both results are 0-d.
SortedTensor topk(const Tensor& x, StrictInt k, StrictInt axis = -1, StrictBool largest = true,
                  StrictBool sorted = true);
Tensor topk_backward(const Tensor& grad_output, const Shape& input_shape, const Tensor& indices,
                     StrictInt axis = -1);

// The positions (int64, in the shape of `values`) at which to insert each value into an ascending
// row to keep it ascending: before equal elements, or after them with `right`. `sorted` has one
// dimension, or one row for each row of `values` with the same leading dimensions.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, StrictBool right = false);
// The same in sorted[sorter], such as with the sorter argsort(sorted). Both have one shape.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, StrictBool right,
                    const Tensor& sorter);

struct UniqueTensor {
  // Ascending, one dimension; each NaN counts separately. Complex numbers are ordered by their real
  // parts, and equal ones by their imaginary parts.
  Tensor values;
  Tensor indices;          // int64: the first position of each in x flattened
  Tensor inverse_indices;  // int64, the shape of x: values[inverse_indices] is x
  Tensor counts;           // int64: the number of occurrences of each
};
Tensor unique(const Tensor& x);
UniqueTensor unique_all(const Tensor& x);

}  // namespace extensor

EXTENSOR_END_API
