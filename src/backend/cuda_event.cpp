// CudaEvent of extensor/cuda.h: checks, and calls of the CUDA library.
#include <utility>

#include "backend/cuda_library.h"
#include "core/check.h"
#include "extensor/cuda.h"

namespace extensor {

namespace {

using detail::message;

const backend::cuda::EventFunctions& functions() { return backend::cuda_library()->events; }

}  // namespace

CudaEvent::CudaEvent(Device device) : device_(device) {
  cuda_stream(device);  // checks the device
  event_ = functions().create(device.index);
}

CudaEvent::CudaEvent(CudaEvent&& other) noexcept
    : device_(other.device_),
      event_(std::exchange(other.event_, nullptr)),
      is_recorded_(std::exchange(other.is_recorded_, false)) {}

CudaEvent& CudaEvent::operator=(CudaEvent&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(event_, other.event_);
  std::swap(is_recorded_, other.is_recorded_);
  return *this;
}

CudaEvent::~CudaEvent() {
  if (event_ != nullptr) functions().destroy(event_, device_.index);
}

void CudaEvent::record() { record(cuda_stream(device_)); }

void CudaEvent::record(void* stream) {
  if (event_ == nullptr) throw ValueError("CudaEvent: record: the event was moved away");
  functions().record(event_, stream, device_.index);
  is_recorded_ = true;
}

void CudaEvent::check_recorded(const char* action) const {
  if (!is_recorded_)
    throw ValueError(message("CudaEvent: ", action, ": the event was not recorded"));
}

void CudaEvent::wait() const { wait(cuda_stream(device_)); }

void CudaEvent::wait(void* stream) const {
  check_recorded("wait");
  functions().wait(event_, stream, device_.index);
}

bool CudaEvent::is_done() const {
  check_recorded("is_done");
  return functions().is_done(event_, device_.index);
}

void CudaEvent::synchronize() const {
  check_recorded("synchronize");
  functions().synchronize(event_, device_.index);
}

double CudaEvent::milliseconds_since(const CudaEvent& earlier) const {
  check_recorded("milliseconds_since");
  earlier.check_recorded("milliseconds_since");
  if (!(device_ == earlier.device_)) {
    throw ValueError(message("CudaEvent: milliseconds_since: the events are of ", device_, " and ",
                             earlier.device_, " (must be one device)"));
  }
  synchronize();
  earlier.synchronize();
  return functions().milliseconds(earlier.event_, event_, device_.index);
}

}  // namespace extensor
