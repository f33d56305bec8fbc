// The complex family of the CPU backend.
#pragma once

#include "backend/backend.h"

namespace extensor::cpu {

void complex_elementwise(backend::ComplexOp op, const backend::ElementwiseCall& call);

}  // namespace extensor::cpu
