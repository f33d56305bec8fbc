// Checks whether a number fits a dtype.
#pragma once

#include "extensor/scalar.h"

namespace extensor::ops {

// Throws a ValueError with the value and the range of the dtype if `dtype` is an integer dtype that
// cannot hold the number; float dtypes accept every number.
void check_scalar_fits(const char* operation, const Scalar& scalar, DType dtype);

}  // namespace extensor::ops
