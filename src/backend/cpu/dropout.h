// The dropout family of the CPU backend.
#pragma once

#include "backend/dropout_call.h"

namespace extensor::cpu {

void dropout(const backend::DropoutCall& call);

}  // namespace extensor::cpu
