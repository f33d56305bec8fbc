// CUDA devices. The library neither links nor needs CUDA: the first use of a CUDA device loads
// libextensor_cuda.so, which is installed beside libextensor.so.
//   Tensor x = zeros({1024, 1024}, cuda());
//   model.to(cuda());
#pragma once

#include <string>

#include "extensor/device.h"
#include "extensor/dtype.h"
#include "extensor/export.h"

EXTENSOR_BEGIN_API

namespace extensor {

class Tensor;

// Also a name for the device if the machine has none; the first use throws DeviceError then.
constexpr Device cuda(int index = 0) {
  return {Device::Type::cuda, static_cast<std::int16_t>(index)};
}

// Whether there is a CUDA device that this program can use, and if not, why and what to install.
bool cuda_is_available();
std::string cuda_unavailable_reason();

// The cudaStream_t in which the calling thread's ops on the device run, for kernels of your own:
// they then run after the ops called before, and before the ops called later. It is the device's
// first stream, or that of a CudaStreamScope. DeviceError if the device is not available.
void* cuda_stream(Device device = cuda());

namespace detail {
void* cuda_address(const Tensor& x, DType dtype);
}
// The address on the device of the first element of x, for kernels of your own; others are at
// strides(). DTypeError if T does not store the dtype of x, DeviceError if x is not on a CUDA
// device.
template <class T>
T* cuda_data(Tensor& x) {
  return static_cast<T*>(detail::cuda_address(x, dtype_of<T>));
}
template <class T>
const T* cuda_data(const Tensor& x) {
  return static_cast<const T*>(detail::cuda_address(x, dtype_of<T>));
}

// A second stream of a CUDA device: work in it runs beside the work of the first one. Order between
// streams is up to the program; a CudaEvent sets it without a wait of the host.
//
//   CudaStream side;
//   CudaEvent ready, done;
//   ready.record();  // x is computed in the first stream
//   Tensor y;
//   {
//     CudaStreamScope scope(side);
//     ready.wait();
//     y = matmul(x, x);  // beside what the first stream does next
//     done.record();
//   }
//   done.wait();  // y may be used in the first stream from here on
//
// Tensors may be freed while any stream uses them: their memory is used again when the work that
// the streams were given before is done. DeviceError if the device is not available or fails.
class CudaStream {
 public:
  explicit CudaStream(Device device = cuda());
  CudaStream(CudaStream&& other) noexcept;
  CudaStream& operator=(CudaStream&& other) noexcept;
  // Waits for its work.
  ~CudaStream();

  Device device() const { return device_; }
  void* native() const;  // the cudaStream_t
  // Waits for its work, and throws errors that kernels reported so far.
  void synchronize() const;

 private:
  friend class CudaStreamScope;
  void check_open(const char* action) const;

  Device device_;
  void* stream_ = nullptr;
};

// While it lives, the ops, copies and events of the calling thread on the stream's device use that
// stream. The stream must live longer.
class CudaStreamScope {
 public:
  explicit CudaStreamScope(const CudaStream& stream);
  CudaStreamScope(const CudaStreamScope&) = delete;
  CudaStreamScope& operator=(const CudaStreamScope&) = delete;
  ~CudaStreamScope();

 private:
  void* last_;
};

// A point in the work of a CUDA device: for timing, and to order the library's work with streams of
// your own. `stream` is a cudaStream_t of the event's device; without one it is
// cuda_stream(device).
//
//   CudaEvent start, end;
//   start.record();
//   Tensor c = matmul(a, b);
//   end.record();
//   double milliseconds = end.milliseconds_since(start);
//
// Errors: DeviceError if the device is not available or fails, ValueError for an event that was
// never recorded.
class CudaEvent {
 public:
  explicit CudaEvent(Device device = cuda());
  CudaEvent(CudaEvent&& other) noexcept;
  CudaEvent& operator=(CudaEvent&& other) noexcept;
  ~CudaEvent();

  Device device() const { return device_; }
  // Marks the end of the work that was put into the stream so far. An event may be recorded again.
  void record();
  void record(void* stream);
  // Work that is put into the stream later starts when the event has been reached; the host does
  // not wait.
  void wait() const;
  void wait(void* stream) const;
  // Whether the event has been reached.
  bool is_done() const;
  // Waits, and throws errors that kernels reported so far.
  void synchronize() const;
  // Waits for this event. ValueError for events of two devices.
  double milliseconds_since(const CudaEvent& earlier) const;

 private:
  void check_recorded(const char* action) const;

  Device device_;
  void* event_ = nullptr;
  bool is_recorded_ = false;
};

}  // namespace extensor

EXTENSOR_END_API
