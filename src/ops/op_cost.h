// The work of one call of an op, estimated from the shapes of its inputs and results.
#pragma once

#include <span>

#include "ops/op.h"

namespace extensor::ops {

// The floating-point operations: two for each multiplication with an addition in products,
// convolutions, attention and recurrent layers; one for each element of the largest tensor in other
// ops; none for views.
double flops_of(const Op& op, Inputs inputs, std::span<const Tensor> results);

// The bytes of the inputs and results, each read or written once; none for views.
double bytes_of(const Op& op, Inputs inputs, std::span<const Tensor> results);

// The bytes of the results that do not share memory with an input.
double new_bytes_of(Inputs inputs, std::span<const Tensor> results);

}  // namespace extensor::ops
