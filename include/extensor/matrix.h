// Matrix products and transposes, and their explicit gradients.
#pragma once

#include <concepts>
#include <utility>

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

// 1-D·1-D (0-d result), 2-D·1-D, 1-D·2-D, 2-D·2-D, and batched with broadcast batch dimensions.
// Transposed operands are read in place. Halves accumulate in float32; integers wrap.
Tensor matmul(const Tensor& a, const Tensor& b);
std::pair<Tensor, Tensor> matmul_backward(const Tensor& grad_output, const Tensor& a,
                                          const Tensor& b);

// The products of two batches of matrices [n, i, k] and [n, k, j]; ShapeError for anything else.
Tensor bmm(const Tensor& a, const Tensor& b);

// A view; without axes it reverses all of them.
Tensor transpose(const Tensor& x);
Tensor transpose(const Tensor& x, const Dims& axes);
// Swaps two axes.
Tensor transpose(const Tensor& x, StrictInt first, StrictInt second);
Tensor transpose_backward(const Tensor& grad_output, const Dims& axes = {});
inline Tensor permute_dims(const Tensor& x, const Dims& axes) { return transpose(x, axes); }
// Swaps the last two axes.
Tensor matrix_transpose(const Tensor& x);

// The 0-d product of two vectors of one length.
Tensor dot(const Tensor& a, const Tensor& b);
std::pair<Tensor, Tensor> dot_backward(const Tensor& grad_output, const Tensor& a, const Tensor& b);
// The matrix of all products of two vectors.
Tensor outer(const Tensor& a, const Tensor& b);
std::pair<Tensor, Tensor> outer_backward(const Tensor& grad_output, const Tensor& a,
                                         const Tensor& b);
// Sums over the last axis of both: [i…, k] and [j…, k] → [i…, j…]. A 0-d operand multiplies.
Tensor inner(const Tensor& a, const Tensor& b);
std::pair<Tensor, Tensor> inner_backward(const Tensor& grad_output, const Tensor& a,
                                         const Tensor& b);
// Sums over the last `axes` axes of a and the first of b, or over the listed pairs of axes; the
// result has a's other axes, then b's. ShapeError if a pair differs in length.
Tensor tensordot(const Tensor& a, const Tensor& b, std::int64_t axes = 2);
Tensor tensordot(const Tensor& a, const Tensor& b, const Dims& a_axes, const Dims& b_axes);
std::pair<Tensor, Tensor> tensordot_backward(const Tensor& grad_output, const Tensor& a,
                                             const Tensor& b, std::int64_t axes = 2);
std::pair<Tensor, Tensor> tensordot_backward(const Tensor& grad_output, const Tensor& a,
                                             const Tensor& b, const Dims& a_axes,
                                             const Dims& b_axes);
// A bool is not a number of axes.
template <std::same_as<bool> T>
Tensor tensordot(const Tensor&, const Tensor&, T) = delete;
template <std::same_as<bool> T>
std::pair<Tensor, Tensor> tensordot_backward(const Tensor&, const Tensor&, const Tensor&,
                                             T) = delete;
// The dot products of the vectors along `axis` of the broadcast shape; the other axes broadcast.
Tensor vecdot(const Tensor& a, const Tensor& b, StrictInt axis = -1);
std::pair<Tensor, Tensor> vecdot_backward(const Tensor& grad_output, const Tensor& a,
                                          const Tensor& b, StrictInt axis = -1);

}  // namespace extensor

EXTENSOR_END_API
