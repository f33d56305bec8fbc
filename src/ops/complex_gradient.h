// Gradients of the elementwise rows for complex numbers.
#pragma once

#include <functional>

#include "backend/elementwise_op.h"
#include "extensor/tensor.h"

namespace extensor::ops {

// The gradient of operand k of a call of a row, given that of its result. `operand(j)` is operand j
// of the call. Composed of recorded ops, so that it has gradients itself; not yet summed to the
// shape of the operand.
Tensor complex_gradient(backend::ElementwiseOp row, std::size_t k, const Tensor& g,
                        const std::function<Tensor(std::size_t)>& operand);

// Whether a gradient of the row reads operand k.
bool complex_gradient_reads(backend::ElementwiseOp row, std::size_t k);

}  // namespace extensor::ops
