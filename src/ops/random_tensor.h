// Creates a tensor filled by a generator: the last step of every random creation function.
#pragma once

#include "backend/backend.h"
#include "extensor/creation.h"

namespace extensor::ops {

// The arguments are already checked. Draws one number per element from the generator.
Tensor random_tensor(const char* operation, backend::RandomCall call, const Shape& shape,
                     const TensorOptions& options, Generator& generator);

// Throws DTypeError unless the requested dtype is a float.
void check_random_float(const char* operation, const TensorOptions& options);

backend::RandomCall random_call(backend::RandomOp op, double first = 0, double second = 1);

}  // namespace extensor::ops
