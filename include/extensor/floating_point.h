// The representation of floats: neighbours and signs.
#pragma once

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

// The number next to a, in its dtype, in the direction of b; b where they are equal, and NaN if one
// of them is NaN. a and b broadcast and promote, integers become float32. It has no gradient.
Tensor nextafter(const Tensor& a, const Tensor& b);
Tensor nextafter(const Tensor& a, const Scalar& b);
Tensor nextafter(const Scalar& a, const Tensor& b);

// Whether the sign bit is set: for negative numbers, −0 and a NaN with that sign. For an integer,
// whether it is negative.
Tensor signbit(const Tensor& x);

}  // namespace extensor

EXTENSOR_END_API
