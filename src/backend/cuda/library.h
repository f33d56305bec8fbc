// The boundary between libextensor and libextensor_cuda.so, which does not link libextensor: so
// programs that contain the library's objects can load it, too. Contains nothing of CUDA.
#pragma once

#include "backend/checks.h"
#include "backend/device.h"

namespace extensor::backend::cuda {

// Functions of libextensor that the kernels need.
struct HostFunctions {
  void (*throw_reported)(const CheckReport& report);
  bool (*is_tf32_allowed)();  // for products of the calling thread
  // The CPU's kernels of linear algebra, on host memory. Throws the error of a check at once.
  void (*matrices)(const MatrixCall& call);
};

// Events of device `index`; a stream that is null is CUDA's default stream.
struct EventFunctions {
  void* (*create)(int index);
  void (*destroy)(void* event, int index);  // does not throw
  void (*record)(void* event, void* stream, int index);
  void (*wait)(void* event, void* stream, int index);
  bool (*is_done)(void* event, int index);
  void (*synchronize)(void* event, int index);
  double (*milliseconds)(void* start, void* end, int index);  // both have been reached
};

// Streams of device `index` beside its first one.
struct StreamFunctions {
  void* (*create)(int index);
  void (*destroy)(void* stream);  // waits for its work; does not throw
  void* (*native)(void* stream);  // its cudaStream_t
  void* (*choose)(
      void* stream);  // for the calling thread; null: the first one. Returns the last choice.
  void (*synchronize)(void* stream);
};

struct Library {
  const DeviceInterface* interface;
  const char* (*unavailable_reason)();  // why there is no device, or ""
  void* (*native_stream)(int index);
  EventFunctions events;
  StreamFunctions streams;
};

// The only exported function of libextensor_cuda.so.
inline constexpr const char* library_function = "extensor_cuda_library";
using LibraryFunction = const Library* (*)(const HostFunctions*);

}  // namespace extensor::backend::cuda
