// The random family of the CPU backend.
#pragma once

#include "backend/backend.h"

namespace extensor::cpu {

void random(const backend::RandomCall& call);

}  // namespace extensor::cpu
