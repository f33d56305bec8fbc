// Linear algebra on the CPU.
#pragma once

#include "backend/matrix_call.h"

namespace extensor::cpu {

void matrices(const backend::MatrixCall& call);

}  // namespace extensor::cpu
