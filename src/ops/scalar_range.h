// Whether a number fits a dtype.
#pragma once

#include "extensor/scalar.h"

namespace extensor::ops {

// ValueError naming the value and the dtype's range when `dtype` is an integer dtype that cannot
// hold it; a float dtype holds everything.
void check_scalar_fits(const char* operation, const Scalar& scalar, DType dtype);

}  // namespace extensor::ops
