// Where the matrices of a broadcast batch lie.
#pragma once

#include "backend/batch_offsets.h"
#include "extensor/tensor.h"

namespace extensor::ops {

// A tensor whose dimensions before the last two broadcast to `batch`, and how far each matrix of
// the batch begins behind its first element. It is x itself, or a copy where the strides of x are
// too irregular for BatchOffsets.
struct BatchedMatrices {
  Tensor x;
  backend::BatchOffsets offsets;

  BatchedMatrices() = default;
  BatchedMatrices(const Tensor& x, const Shape& batch);
};

}  // namespace extensor::ops
