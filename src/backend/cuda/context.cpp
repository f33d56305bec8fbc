#include "backend/cuda/context.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "backend/cuda/state.h"
#include "core/check.h"

namespace extensor::backend::cuda {

using detail::message;

namespace {

HostFunctions host_functions;

// ---- failures that end the use of CUDA

std::atomic<bool> forked{false};
std::atomic<bool> failed{false};
std::mutex failure_mutex;
std::string failure;  // set once, before `failed`

// Whether no later call on the device can succeed in this process.
bool is_sticky(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
    case cudaErrorContained:
      return true;
    default:
      return false;
  }
}

// ---- devices

struct Devices {
  int count = 0;
  std::string reason;  // why there is none
  std::unique_ptr<DeviceState[]> states;
  std::unique_ptr<std::once_flag[]> started;

  Devices() {
    int driver = 0, found = 0;
    const cudaError_t result = cudaGetDeviceCount(&found);
    if (result != cudaSuccess) {
      cudaGetLastError();
      if (cudaDriverGetVersion(&driver) != cudaSuccess) cudaGetLastError();
      if (driver == 0) {
        reason = "no NVIDIA driver was found (install the driver of the GPU)";
      } else if (result == cudaErrorInsufficientDriver) {
        reason = message("the NVIDIA driver supports CUDA ", driver / 1000, ".", driver % 1000 / 10,
                         ", the library needs ", CUDART_VERSION / 1000, ".",
                         CUDART_VERSION % 1000 / 10, " (install a newer driver)");
      } else {
        reason = message("CUDA finds no GPU: ", cudaGetErrorString(result), " (",
                         cudaGetErrorName(result), ")");
      }
      return;
    }
    if (found == 0) reason = "CUDA finds no GPU";
    count = found;
    states = std::make_unique<DeviceState[]>(static_cast<std::size_t>(count));
    started = std::make_unique<std::once_flag[]>(static_cast<std::size_t>(count));
  }
};

// Never destroyed: tensors in static objects may be freed at any time.
Devices& devices() {
  static auto* made = new Devices;
  return *made;
}

void start(int index) {
  DeviceState& device = devices().states[static_cast<std::size_t>(index)];
  device.index = index;
  device.memory.set_index(index);
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  device.multiprocessors = properties.multiProcessorCount;
  check(cudaStreamCreateWithFlags(&device.stream, cudaStreamNonBlocking), "cudaStreamCreate");
  check(cudaMallocHost(&device.noticed, sizeof *device.noticed), "cudaMallocHost");
  *device.noticed = 0;
  device.memory.set_first_stream(device.stream);
  check(cudaMalloc(&device.slot, sizeof *device.slot), "cudaMalloc");
  ReportSlot empty{};
  empty.noticed = device.noticed;
  check(cudaMemcpy(device.slot, &empty, sizeof empty, cudaMemcpyHostToDevice), "cudaMemcpy");
  static const int once = pthread_atfork(nullptr, nullptr, [] { forked = true; });
  static_cast<void>(once);
}

thread_local int active = -1;  // the device of the thread's last call

bool waits_after_launch() {
  static const bool asked = [] {
    const char* value = std::getenv("EXTENSOR_CUDA_BLOCKING");
    return value != nullptr && std::strcmp(value, "1") == 0;
  }();
  return asked;
}

}  // namespace

void set_host_functions(const HostFunctions& functions) { host_functions = functions; }

bool is_tf32_allowed() { return host_functions.is_tf32_allowed(); }

void compute_on_host(const MatrixCall& call) { host_functions.matrices(call); }

int device_count() { return devices().count; }
const char* unavailable_reason() { return devices().reason.c_str(); }

bool is_unusable() {
  return failed.load(std::memory_order_relaxed) || forked.load(std::memory_order_relaxed);
}

DeviceState& enter(int index) {
  if (is_unusable()) [[unlikely]] {
    if (forked) {
      throw DeviceError(
          "cuda: CUDA cannot be used after fork() in a process that used it (start a new process)");
    }
    const std::lock_guard lock(failure_mutex);
    throw DeviceError(
        message("cuda: a device failed in this process: ", failure, " (restart the program)"));
  }
  Devices& all = devices();
  DeviceState& device = all.states[static_cast<std::size_t>(index)];
  if (active != index) {
    check(cudaSetDevice(index), "cudaSetDevice");
    std::call_once(all.started[static_cast<std::size_t>(index)], start, index);
    active = index;
  }
  return device;
}

DeviceState& state_of(int index) { return devices().states[static_cast<std::size_t>(index)]; }

int device_of(const void* address) {
  for (int index = 0; index < device_count(); ++index) {
    if (state_of(index).memory.contains(address)) return index;
  }
  throw DeviceError("cuda: a kernel was given memory of no CUDA device");
}

DeviceState& current() { return state_of(active); }

// ---- errors

void check(cudaError_t result, const char* action) {
  if (result == cudaSuccess) [[likely]] {
    return;
  }
  cudaGetLastError();  // clears it, if it can be cleared
  const std::string text =
      message(action, ": ", cudaGetErrorString(result), " (", cudaGetErrorName(result), ")");
  if (is_sticky(result)) {
    const std::lock_guard lock(failure_mutex);
    if (!failed) {
      failure = text;
      failed = true;
    }
  }
  if (result == cudaErrorMemoryAllocation) throw OutOfMemoryError(message("cuda: ", text));
  throw DeviceError(message("cuda: ", text));
}

void launched(const char* family) {
  check(cudaPeekAtLastError(), family);
  wait_if_asked(family);
}

void wait_if_asked(const char* family) {
  if (waits_after_launch()) check(cudaStreamSynchronize(stream()), family);
}

void launch_kernel(const char* family, const void* kernel, dim3 blocks, dim3 threads,
                   std::size_t shared_bytes, void** arguments, bool overlaps) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream();
  config.attrs = &attribute;
  config.numAttrs = overlaps ? 1 : 0;
  check(cudaLaunchKernelExC(&config, kernel, arguments), family);
  wait_if_asked(family);
}

// ---- the current device

cudaStream_t stream_of(const DeviceState& device) {
  const SideStream* side = chosen_stream();
  return side != nullptr && side->device == device.index ? side->stream : device.stream;
}
int pool_of(const DeviceState& device) {
  const SideStream* side = chosen_stream();
  return side != nullptr && side->device == device.index ? side->pool : 0;
}

cudaStream_t stream() { return stream_of(current()); }
int multiprocessors() { return current().multiprocessors; }
int current_device() { return active; }

int blocks_for(std::int64_t work, int threads_per_block, int blocks_per_multiprocessor) {
  const std::int64_t needed = (work + threads_per_block - 1) / threads_per_block;
  const std::int64_t most = std::int64_t{multiprocessors()} * blocks_per_multiprocessor;
  return static_cast<int>(std::clamp<std::int64_t>(needed, 1, most));
}

Scratch::Scratch(std::size_t bytes, const char* operation) {
  DeviceState& device = current();
  DeviceMemory::Block* block = device.memory.allocate(bytes, operation, pool_of(device));
  block_ = block;
  data_ = block->data;
  device_ = active;
}

Scratch::~Scratch() { state_of(device_).memory.free(static_cast<DeviceMemory::Block*>(block_)); }

void throw_unexpected_dtype(DType dtype) {
  throw DeviceError(message("cuda: a kernel was called with ", dtype, ", which it does not take"));
}

// ---- reports

Reporter reporter(std::uint32_t check) {
  DeviceState& device = current();
  return {device.slot, device.calls.fetch_add(1, std::memory_order_relaxed) + 1, check};
}

namespace {

void wait_for_streams(DeviceState& device) {
  check(cudaStreamSynchronize(device.stream), "waiting for kernels");
  const std::lock_guard lock(device.side_mutex);
  for (const SideStream* side : device.side_streams) {
    check(cudaStreamSynchronize(side->stream), "waiting for kernels");
  }
}

}  // namespace

void throw_reports(DeviceState& device) {
  if (*static_cast<volatile std::uint32_t*>(device.noticed) == 0) return;
  // Kernels that run now may still write: wait for them, so that the slot can be cleared.
  wait_for_streams(device);
  ReportSlot found{};
  check(cudaMemcpy(&found, device.slot, sizeof found, cudaMemcpyDeviceToHost), "cudaMemcpy");
  ReportSlot empty{};
  empty.noticed = device.noticed;
  check(cudaMemcpy(device.slot, &empty, sizeof empty, cudaMemcpyHostToDevice), "cudaMemcpy");
  *device.noticed = 0;
  if (found.number == 0) return;
  host_functions.throw_reported({found.number, found.position, found.bits});
}

void wait(DeviceState& device) {
  wait_for_streams(device);
  throw_reports(device);
}

}  // namespace extensor::backend::cuda
