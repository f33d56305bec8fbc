// The row family of the CPU backend.
#pragma once

#include "backend/backend.h"

namespace extensor::cpu {

void rows(const backend::RowCall& call);

}  // namespace extensor::cpu
