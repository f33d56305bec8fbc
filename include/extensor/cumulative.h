// Running sums and products along one axis, and their gradients. Floats keep their dtype and are
// accumulated in float64; integers and bool give int64 (uint64 for unsigned).
#pragma once

#include <optional>

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

// The axis may be left out up to one dimension; ValueError beyond. A 0-d tensor is a row of one.
Tensor cumulative_sum(const Tensor& x, std::optional<StrictInt> axis = {});
Tensor cumulative_sum_backward(const Tensor& grad_output, std::optional<StrictInt> axis = {});

// Its gradient is exact where elements are 0 too.
Tensor cumulative_prod(const Tensor& x, std::optional<StrictInt> axis = {});
Tensor cumulative_prod_backward(const Tensor& grad_output, const Tensor& x,
                                std::optional<StrictInt> axis = {});

}  // namespace extensor

EXTENSOR_END_API
