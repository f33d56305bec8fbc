// CudaStream of extensor/cuda.h: checks, and calls of the CUDA library.
#include <utility>

#include "backend/cuda_library.h"
#include "core/check.h"
#include "extensor/cuda.h"

namespace extensor {

namespace {

const backend::cuda::StreamFunctions& functions() { return backend::cuda_library()->streams; }

}  // namespace

CudaStream::CudaStream(Device device) : device_(device) {
  if (device.type != Device::Type::cuda) {
    throw DeviceError(
        detail::message("CudaStream: device ", device, " has no streams (allowed: cuda)"));
  }
  backend::available_interface(device, "CudaStream");
  stream_ = functions().create(device.index);
}

CudaStream::CudaStream(CudaStream&& other) noexcept
    : device_(other.device_), stream_(std::exchange(other.stream_, nullptr)) {}

CudaStream& CudaStream::operator=(CudaStream&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(stream_, other.stream_);
  return *this;
}

CudaStream::~CudaStream() {
  if (stream_ != nullptr) functions().destroy(stream_);
}

void CudaStream::check_open(const char* action) const {
  if (stream_ == nullptr) {
    throw ValueError(detail::message("CudaStream: ", action, ": the stream was moved away"));
  }
}

void* CudaStream::native() const {
  check_open("native");
  return functions().native(stream_);
}

void CudaStream::synchronize() const {
  check_open("synchronize");
  functions().synchronize(stream_);
}

CudaStreamScope::CudaStreamScope(const CudaStream& stream) {
  stream.check_open("CudaStreamScope");
  last_ = functions().choose(stream.stream_);
}

CudaStreamScope::~CudaStreamScope() { functions().choose(last_); }

}  // namespace extensor
