// The caching allocators of the devices: statistics, a limit, and a way to release memory. Every
// function throws DeviceError for a device that is not available.
#pragma once

#include <cstddef>
#include <cstdint>

#include "extensor/device.h"
#include "extensor/export.h"

EXTENSOR_BEGIN_API

namespace extensor {

struct MemoryStats {
  std::size_t allocated_bytes;       // in live tensors, rounded up to size classes
  std::size_t peak_allocated_bytes;  // the largest allocated_bytes since the last reset
  std::size_t cached_bytes;          // freed by tensors, kept for reuse
  std::uint64_t allocations;         // the number of requests by tensors
  std::uint64_t cache_hits;          // the requests that needed no system call
};

MemoryStats memory_stats(Device device = cpu_device);

// Resets the peak to the current allocated_bytes.
void reset_peak_memory_stats(Device device = cpu_device);

// Returns cached blocks to the system: those in the shared cache and in this thread's.
void empty_cache(Device device = cpu_device);

// The most bytes that live tensors may hold together; 0 means no limit. An allocation beyond it
// throws OutOfMemoryError and has no effect.
void set_memory_limit(std::size_t bytes, Device device = cpu_device);
std::size_t memory_limit(Device device = cpu_device);

}  // namespace extensor

EXTENSOR_END_API
