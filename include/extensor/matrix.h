// Matrix products and transposes, and their explicit gradients.
#pragma once

#include <utility>

#include "extensor/tensor.h"

namespace extensor {

// 1-D·1-D (0-d result), 2-D·1-D, 1-D·2-D, 2-D·2-D, and batched with broadcast batch dimensions.
// Transposed operands are read in place. Halves accumulate in float32; integers wrap.
Tensor matmul(const Tensor& a, const Tensor& b);
std::pair<Tensor, Tensor> matmul_backward(const Tensor& grad_output, const Tensor& a,
                                          const Tensor& b);

// A view; without axes all of them are reversed.
Tensor transpose(const Tensor& x);
Tensor transpose(const Tensor& x, const Dims& axes);
Tensor transpose_backward(const Tensor& grad_output, const Dims& axes = {});
inline Tensor permute_dims(const Tensor& x, const Dims& axes) { return transpose(x, axes); }
// Swaps the last two axes.
Tensor matrix_transpose(const Tensor& x);

// Two vectors of one length → 0-d.
Tensor dot(const Tensor& a, const Tensor& b);
std::pair<Tensor, Tensor> dot_backward(const Tensor& grad_output, const Tensor& a, const Tensor& b);
// Two vectors → the matrix of all products.
Tensor outer(const Tensor& a, const Tensor& b);
std::pair<Tensor, Tensor> outer_backward(const Tensor& grad_output, const Tensor& a,
                                         const Tensor& b);

}  // namespace extensor
