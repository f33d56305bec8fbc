// A new tensor filled from a generator: what every random creation function ends with.
#pragma once

#include "backend/backend.h"
#include "extensor/random.h"
#include "extensor/tensor.h"

namespace extensor::ops {

// Checked already. Takes one draw per element from the generator.
Tensor drawn(const char* operation, backend::RandomCall call, const Shape& shape, DType dtype,
             Generator& generator);

// DTypeError unless the dtype asked for is a float.
void check_random_float(const char* operation, DType dtype);

backend::RandomCall random_call(backend::RandomOp op, double first = 0, double second = 1);

}  // namespace extensor::ops
