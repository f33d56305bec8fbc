// Loads libextensor_cuda.so.
#pragma once

#include <string>

#include "backend/cuda/library.h"

namespace extensor::backend {

// Loads the library and registers its devices on the first call. Null if that failed.
const cuda::Library* cuda_library();
// Another exported function of the library, once it is loaded. Null if there is none of the name.
void* cuda_function(const char* name);
// Why there is no CUDA device; empty if there is one.
std::string cuda_unavailable_reason();

}  // namespace extensor::backend
