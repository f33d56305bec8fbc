// Indexing ops: take, put, add and select elements by position, and their gradients.
//
//   Tensor rows = extensor::take(table, ids, 0);             // [ids…, width]
//   Tensor large = x[x > 0];                                 // boolean mask, as masked_select
//   Tensor grad = extensor::take_backward(g, table.shape(), ids, 0);
//
// Indices have any integer dtype; negative ones count from the end. IndexError names the index, its
// position and the size, before anything is written; DTypeError for indices that are not integers.
// Several values added at one place are added in the order of the indices, in float64 for floats,
// and rounded once, so the result does not depend on the number of threads.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

// NumPy's take: x.shape with `axis` replaced by the shape of `indices`; without an axis, takes from
// x flattened.
Tensor take(const Tensor& x, const Tensor& indices, std::optional<StrictInt> axis = {});
Tensor take_backward(const Tensor& grad_output, const Shape& input_shape, const Tensor& indices,
                     std::optional<StrictInt> axis = {});

// NumPy's take_along_axis: out[…, j, …] = x[…, indices[…, j, …], …] along `axis`. Both have the
// same rank and broadcast against each other on the other axes.
Tensor take_along_axis(const Tensor& x, const Tensor& indices, StrictInt axis = -1);
Tensor take_along_axis_backward(const Tensor& grad_output, const Shape& input_shape,
                                const Tensor& indices, StrictInt axis = -1);

// PyTorch's gather: like take_along_axis without broadcasting; indices may be shorter than x on the
// other axes.
Tensor gather(const Tensor& x, StrictInt axis, const Tensor& indices);
Tensor gather_backward(const Tensor& grad_output, const Shape& input_shape, StrictInt axis,
                       const Tensor& indices);

// PyTorch's scatter, as a new tensor: x with out[…, indices[…, j, …], …] = source[…, j, …]. indices
// may be shorter than source, and than x on the other axes. An element written twice keeps the last
// one, in the order of the indices. Gradients: of x and of source.
Tensor scatter(const Tensor& x, StrictInt axis, const Tensor& indices, const Tensor& source);
std::pair<Tensor, Tensor> scatter_backward(const Tensor& grad_output, StrictInt axis,
                                           const Tensor& indices, const Shape& source_shape);

// How scatter combines the sources of one place with each other and with x: their sum, product,
// mean, largest or smallest.
enum class ScatterReduction : std::uint8_t { sum, prod, mean, max, min };
// PyTorch's scatter_reduce. With `include_self` the element of x counts as one of the sources;
// otherwise it only remains where no source goes. Gradients: of x and of source; tied maxima share
// theirs equally. Derivatives of a product are exact up to order 4 where more than 4 factors are 0,
// and of every order elsewhere. The mean of integers rounds down.
Tensor scatter(const Tensor& x, StrictInt axis, const Tensor& indices, const Tensor& source,
               ScatterReduction reduction, StrictBool include_self = true);
// Takes the forward's arguments, since the gradient depends on the values.
std::pair<Tensor, Tensor> scatter_backward(const Tensor& grad_output, const Tensor& x,
                                           StrictInt axis, const Tensor& indices,
                                           const Tensor& source, ScatterReduction reduction,
                                           StrictBool include_self = true);

// Like scatter, but adds to the elements of x.
Tensor scatter_add(const Tensor& x, StrictInt axis, const Tensor& indices, const Tensor& source);
std::pair<Tensor, Tensor> scatter_add_backward(const Tensor& grad_output, StrictInt axis,
                                               const Tensor& indices, const Shape& source_shape);

// x with alpha · source[…, j, …] added at out[…, indices[j], …]. indices has one dimension, source
// the shape of x with `axis` as long as indices. Gradients: of x and of source.
Tensor index_add(const Tensor& x, StrictInt axis, const Tensor& indices, const Tensor& source,
                 const Scalar& alpha = 1);
std::pair<Tensor, Tensor> index_add_backward(const Tensor& grad_output, StrictInt axis,
                                             const Tensor& indices, const Scalar& alpha = 1);

// The elements at one position of an axis: a view of x without the axis. A negative position counts
// from the end; IndexError out of range.
Tensor select(const Tensor& x, StrictInt axis, StrictInt index);

// The elements where mask is true, like NumPy's x[mask]; also written x[mask]. mask has the shape
// of x's leading axes, which become one, or the rank of x and broadcasts against it. ShapeError
// otherwise: a shorter mask never aligns with the last axes.
Tensor masked_select(const Tensor& x, const Tensor& mask);
Tensor masked_select_backward(const Tensor& grad_output, const Shape& input_shape,
                              const Tensor& mask);

// x with `value` where mask, broadcast to x's shape, is true. ValueError if x's dtype cannot hold
// the value.
Tensor masked_fill(const Tensor& x, const Tensor& mask, const Scalar& value);
Tensor masked_fill_backward(const Tensor& grad_output, const Tensor& mask);

// x with `values`, broadcast, at x.index(index), as a new tensor of x's dtype. `x[…] = values` is
// the same in place; extensor/indexed_tensor.h has the rules. An element written more than once
// keeps the last value in row-major order. DTypeError for floats into integers.
//
//   Tensor y = extensor::index_put(x, {rows, columns}, values);
//
// Gradients: of x, 0 for elements that were overwritten; of values, 0 for those that were
// overwritten by later ones.
Tensor index_put(const Tensor& x, const std::vector<Index>& index, const Tensor& values);
std::pair<Tensor, Tensor> index_put_backward(const Tensor& grad_output,
                                             const std::vector<Index>& index,
                                             const Shape& values_shape);

// The gradient of x.index(index) and of x.slice(axis, start, stop, step): grad_output at the
// elements that were read, summed if tensors read one more than once, and 0 elsewhere.
Tensor slice_backward(const Tensor& grad_output, const Shape& input_shape,
                      const std::vector<Index>& index);
Tensor slice_backward(const Tensor& grad_output, const Shape& input_shape, StrictInt axis,
                      std::optional<StrictInt> start, std::optional<StrictInt> stop = {},
                      StrictInt step = 1);

// The positions of the elements that are not 0, in row-major order: one int64 tensor per axis.
// A 0-d tensor counts as one of length 1.
std::vector<Tensor> nonzero(const Tensor& x);

// indices.shape + [classes], 1 at the index and 0 elsewhere. IndexError for an index below 0 or not
// below `classes`.
Tensor one_hot(const Tensor& indices, StrictInt classes, DType dtype = default_integer);

}  // namespace extensor

EXTENSOR_END_API
