// The state of the CUDA library: of each device and of the process.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "backend/checks.h"
#include "backend/cuda/context.h"
#include "backend/cuda/library.h"
#include "backend/cuda/memory.h"
#include "backend/device.h"

namespace extensor::backend::cuda {

// A stream beside a device's first one.
struct SideStream {
  cudaStream_t stream = nullptr;
  int device = 0;
  int pool = 0;  // of the allocator
};

struct DeviceState {
  int index = 0;
  cudaStream_t stream = nullptr;  // the first one
  int multiprocessors = 1;
  DeviceMemory memory;

  std::mutex side_mutex;
  std::vector<SideStream*> side_streams;

  // Reports of invalid values. `noticed` is in pinned memory.
  ReportSlot* slot = nullptr;
  std::uint32_t* noticed = nullptr;
  std::atomic<std::uint64_t> calls{0};

  // Pinned buffers through which copies of the host's pageable memory pass, in turn.
  static constexpr int buffer_count = 4;
  static constexpr std::size_t buffer_bytes = std::size_t{4} << 20;
  std::mutex copying;
  std::byte* buffers[buffer_count] = {};
  cudaEvent_t buffer_free[buffer_count] = {};
  int next_buffer = 0;

  // Results that are on their way to the host (begin_read).
  struct Read {
    std::uint64_t* value;
    cudaEvent_t arrived;
  };
  std::mutex reading;
  std::vector<Read> reads;
  std::vector<std::size_t> free_reads;

  // Copies from the host that run beside the kernels (begin_upload), in a stream of their own. Each
  // has a pinned buffer.
  struct Upload {
    std::byte* buffer;
    std::size_t bytes;        // of the buffer
    cudaEvent_t ready, done;  // the target may be written; the copy is complete
    bool under_way;           // until finish_upload
  };
  std::mutex uploading;
  cudaStream_t upload_stream = nullptr;
  std::vector<Upload> uploads;
};

// The number of devices; 0 if there is no driver or no GPU, and then why.
int device_count();
const char* unavailable_reason();

// Prepares the device for calls of this thread. DeviceError if the device failed before, or in a
// child of a process that used CUDA.
DeviceState& enter(int index);
// The device that this thread entered last.
DeviceState& current();
// The device of an address of its memory. DeviceError for an address of no device.
int device_of(const void* address);
// The state for freeing memory, which needs no call of CUDA.
DeviceState& state_of(int index);
// Whether calls to CUDA make no sense any more: the device failed, or the process was forked.
bool is_unusable();

// The stream in which this thread's work of the device runs, and its pool of memory.
cudaStream_t stream_of(const DeviceState& device);
int pool_of(const DeviceState& device);

// Waits for all work of the device, then throws what kernels reported.
void wait(DeviceState& device);
void throw_reports(DeviceState& device);

void set_host_functions(const HostFunctions& functions);
// Linear algebra of host memory by the CPU's kernels.
void compute_on_host(const MatrixCall& call);

// ---- events.cpp

extern const EventFunctions event_functions;

// ---- streams.cpp

extern const StreamFunctions stream_functions;
// The side stream that this thread uses, or null.
SideStream* chosen_stream();

// ---- copies.cpp

void copy(const CopyCall& call);
std::uint64_t begin_read(const void* from, std::size_t bytes, int index);
void finish_read(std::uint64_t ticket, void* to, std::size_t bytes, int index);
std::uint64_t begin_upload(void* to, const void* from, std::size_t bytes, int index);
void finish_upload(std::uint64_t ticket, int index);

}  // namespace extensor::backend::cuda
