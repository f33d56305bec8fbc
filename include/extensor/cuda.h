// CUDA devices. The library neither links nor needs CUDA: the first use of a CUDA device loads
// libextensor_cuda.so, which is installed beside libextensor.so.
//   Tensor x = zeros({1024, 1024}, cuda());
//   model.to(cuda());
#pragma once

#include <string>

#include "extensor/device.h"
#include "extensor/export.h"

EXTENSOR_BEGIN_API

namespace extensor {

// Also a name for the device if the machine has none; the first use throws DeviceError then.
constexpr Device cuda(int index = 0) {
  return {Device::Type::cuda, static_cast<std::int16_t>(index)};
}

// Whether there is a CUDA device that this program can use, and if not, why and what to install.
bool cuda_is_available();
std::string cuda_unavailable_reason();

// The cudaStream_t in which the library runs all kernels of the device, for kernels of your own:
// they then run after the ops called before, and before the ops called later. DeviceError if the
// device is not available.
void* cuda_stream(Device device = cuda());

}  // namespace extensor

EXTENSOR_END_API
