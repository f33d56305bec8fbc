// The elementwise family of the CPU backend.
#pragma once

#include "backend/backend.h"

namespace extensor::cpu {

void elementwise(const backend::ElementwiseCall& call);

}  // namespace extensor::cpu
