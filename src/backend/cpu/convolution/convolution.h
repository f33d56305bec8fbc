// The convolution family of the CPU backend.
#pragma once

#include "backend/backend.h"

namespace extensor::cpu {

void convolution(const backend::ConvolutionCall& call);

}  // namespace extensor::cpu
