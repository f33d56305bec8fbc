// Checks whether a dtype can hold a number.
#pragma once

#include "extensor/scalar.h"
#include "extensor/tensor.h"

namespace extensor::ops {

// Throws a DTypeError for a complex number unless `dtype` is complex, and a ValueError with the
// value and the range of the dtype if `dtype` is an integer dtype that cannot hold the number;
// float dtypes accept every number.
void check_scalar_fits(const char* operation, const Scalar& scalar, DType dtype);

// Throws what check_scalar_fits() throws, and a ValueError with the argument for a fraction in an
// integer dtype and for any number but 0 and 1 in bool: for numbers that are stored as they are.
void check_scalar_stored(const char* operation, const char* argument, const Scalar& value,
                         DType dtype);

// The kinds of dtypes in the order in which one stores the values of another without say so:
// integers and bool, floats, complex numbers.
constexpr int kind_of(DType dtype) {
  return is_complex(dtype) ? 2 : static_cast<int>(is_floating_point(dtype));
}

// A complex number as a 0-d tensor on the CPU, of a complex dtype.
Tensor complex_number(const Scalar& value, DType dtype);

}  // namespace extensor::ops
