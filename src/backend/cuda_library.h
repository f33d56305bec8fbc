// Loads libextensor_cuda.so.
#pragma once

#include <string>

#include "backend/cuda/library.h"

namespace extensor::backend {

// Loads the library and registers its devices on the first call. Null if that failed.
const cuda::Library* cuda_library();
// Why there is no CUDA device; empty if there is one.
std::string cuda_unavailable_reason();

}  // namespace extensor::backend
