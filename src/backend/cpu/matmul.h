// The matrix product family of the CPU backend.
#pragma once

#include "backend/backend.h"

namespace extensor::cpu {

void matmul(const backend::MatmulCall& call);

}  // namespace extensor::cpu
