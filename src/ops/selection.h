// Selections by tensors as values of index expressions, and their gradient.
#pragma once

#include <span>
#include <vector>

#include "extensor/tensor.h"

namespace extensor::ops {

// x[index] where at least one index is a tensor; recorded.
IndexedTensor select(const Tensor& x, std::span<const Index> index);
Tensor select_backward(const Tensor& grad_output, const Shape& input_shape,
                       const std::vector<Index>& index);

}  // namespace extensor::ops
