// The interpolation family of the CPU backend.
#pragma once

#include "backend/backend.h"

namespace extensor::cpu {

void interpolate(const backend::InterpolationCall& call);

}  // namespace extensor::cpu
