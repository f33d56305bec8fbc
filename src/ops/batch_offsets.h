// Where the matrices of a broadcast batch lie.
#pragma once

#include <cstdint>
#include <vector>

#include "extensor/tensor.h"

namespace extensor::ops {

// For each of the `count` elements of `batch`, how far the matrix of x that belongs to it begins
// behind x's first element: x's dimensions before its last two broadcast to `batch`.
std::vector<std::int64_t> batch_offsets(const Tensor& x, const Shape& batch, std::int64_t count);

}  // namespace extensor::ops
