// The elementwise family of the CPU backend.
#pragma once

#include "backend/backend.h"

namespace extensor::cpu {

void elementwise(const backend::ElementwiseCall& call);
bool has_elementwise(backend::ElementwiseOp op, DType compute);

}  // namespace extensor::cpu
