// Gradients of the elementwise rows for complex numbers.
#pragma once

#include <functional>

#include "extensor/tensor.h"
#include "ops/row_gradients.h"

namespace extensor::ops {

// The gradient of operand k of a call of a row, given that of its result. `operand(j)` is operand j
// of the call. Composed of recorded ops, so that it has gradients itself; not yet summed to the
// shape of the operand.
Tensor complex_gradient(backend::ElementwiseOp row, std::size_t k, const Tensor& g,
                        const std::function<Tensor(std::size_t)>& operand);

// The gradient of x of a row of one operand, from `saved`: what the backward of the row reads, x or
// the result.
Tensor complex_unary_gradient(const UnaryGradient& row, const Tensor& g, const Tensor& saved);

// Whether a gradient of the row reads operand k.
bool complex_gradient_reads(backend::ElementwiseOp row, std::size_t k);

}  // namespace extensor::ops
