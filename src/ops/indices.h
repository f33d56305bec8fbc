// Tensors of indices: checked once, before anything is written, then trusted by kernels.
#pragma once

#include "extensor/tensor.h"

namespace extensor::ops {

// Which indices are allowed beside 0 … size − 1.
enum class Negative : std::uint8_t { from_the_end, refused };

// The indices as a dense int64 tensor of values in 0 … size − 1. DTypeError unless they are
// integers, IndexError naming the first that is out of range and its position.
Tensor checked_indices(const char* operation, const Tensor& indices, std::int64_t size,
                       std::int64_t axis, Negative negative = Negative::from_the_end);

// DTypeError unless x is bool.
void check_mask(const char* operation, const Tensor& mask);

// The row-major positions where a bool tensor is true, as a new int64 tensor of one dimension.
Tensor true_positions(const char* operation, const Tensor& mask);

}  // namespace extensor::ops
