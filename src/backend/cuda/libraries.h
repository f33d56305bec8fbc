// NVIDIA's libraries, opened when first needed: ExTensor neither links nor installs them.
#pragma once

#include <string>

namespace extensor::backend::cuda {

// The handle of a shared library such as "libcublasLt.so.13", searched in the system's path, in the
// directories of EXTENSOR_CUDA_LIBRARIES (separated by colons), in /usr/local/cuda and in the
// packages that pip installs. Null if it is not found; `reason` then says why.
void* open_library(const char* soname, std::string* reason = nullptr);

}  // namespace extensor::backend::cuda
