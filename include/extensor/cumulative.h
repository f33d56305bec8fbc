// Cumulative sums and products along one axis, and their gradients. Floats keep their dtype and
// accumulate in float64; integers and bool yield int64 (uint64 for unsigned).
#pragma once

#include <optional>

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

struct CumulativeOptions {
  std::optional<DType> dtype = {};  // x is converted to it, and the result has it
  bool include_initial = false;     // the result starts with 0 or 1, and is longer by one
};

// The axis is optional for tensors of at most one dimension; ValueError otherwise. A 0-d tensor
// counts as a row of one.
Tensor cumulative_sum(const Tensor& x, std::optional<StrictInt> axis = {});
// The same on x converted to the dtype, which the result has.
Tensor cumulative_sum(const Tensor& x, std::optional<StrictInt> axis, DType dtype);
Tensor cumulative_sum(const Tensor& x, std::optional<StrictInt> axis,
                      const CumulativeOptions& options);
Tensor cumulative_sum_backward(const Tensor& grad_output, std::optional<StrictInt> axis = {});

// The gradient is also exact where elements are 0.
Tensor cumulative_prod(const Tensor& x, std::optional<StrictInt> axis = {});
Tensor cumulative_prod(const Tensor& x, std::optional<StrictInt> axis, DType dtype);
Tensor cumulative_prod(const Tensor& x, std::optional<StrictInt> axis,
                       const CumulativeOptions& options);
Tensor cumulative_prod_backward(const Tensor& grad_output, const Tensor& x,
                                std::optional<StrictInt> axis = {});

}  // namespace extensor

EXTENSOR_END_API
