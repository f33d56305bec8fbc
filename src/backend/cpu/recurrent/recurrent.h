// The recurrent family of the CPU backend.
#pragma once

#include "backend/backend.h"

namespace extensor::cpu {

void recurrent(const backend::RecurrentCall& call);
void recurrent_backward(const backend::RecurrentBackwardCall& call);

}  // namespace extensor::cpu
