// The version of ExTensor.
#pragma once

#include "extensor/export.h"

EXTENSOR_BEGIN_API

namespace extensor {

// "0.1.0"
const char* version();

}  // namespace extensor

EXTENSOR_END_API
