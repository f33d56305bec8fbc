// The pooling family of the CPU backend.
#pragma once

#include "backend/backend.h"

namespace extensor::cpu {

void pooling(const backend::PoolingCall& call);

}  // namespace extensor::cpu
