// The scatter kernels, for ops that combine the sources of one place.
#pragma once

#include "backend/indexing_call.h"
#include "extensor/tensor.h"

namespace extensor::ops {

// The dtype in which values of one place are combined: float64, int64 or uint64.
DType sum_dtype(DType dtype);

// Pads with 0, the gradient of source elements that shorter indices do not read.
Tensor extended_to(const Shape& shape, const Tensor& gradient);

// A copy of x as `dtype`, in which `op` combines the sources with the elements at the indices.
// Checks the arguments, and is not recorded.
Tensor scattered_by(const char* operation, backend::IndexOp op, const Tensor& x, DType dtype,
                    std::int64_t axis, const Tensor& indices, const Tensor& source);

}  // namespace extensor::ops
