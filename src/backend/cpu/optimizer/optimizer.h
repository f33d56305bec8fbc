// The optimizer family of the CPU backend.
#pragma once

#include "backend/backend.h"

namespace extensor::cpu {

void optimizer_step(const backend::OptimizerCall& call);
void power_sum(const backend::PowerSumCall& call);

}  // namespace extensor::cpu
