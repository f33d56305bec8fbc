// Offsets of the matrices in a broadcast batch.
#pragma once

#include "backend/batch_offsets.h"
#include "extensor/tensor.h"

namespace extensor::ops {

// A tensor whose leading dimensions broadcast to `batch`, and the offset of each matrix from its
// first element. The tensor is x itself, or a copy if the strides of x are too irregular for
// BatchOffsets.
struct BatchedMatrices {
  Tensor x;
  backend::BatchOffsets offsets;

  BatchedMatrices() = default;
  BatchedMatrices(const Tensor& x, const Shape& batch);
};

}  // namespace extensor::ops
