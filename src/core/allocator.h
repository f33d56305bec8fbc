// The CPU's caching allocator. The functions of extensor/memory.h reach it through the CPU's
// DeviceInterface.
#pragma once

#include <cstddef>

#include "extensor/memory.h"
#include "extensor/storage.h"

namespace extensor::detail {

// `bytes` uninitialised bytes, 64-byte aligned. OutOfMemoryError, naming `operation`, when the
// machine or the limit has no room.
StoragePointer allocate_host(std::size_t bytes, const char* operation);

MemoryStats host_memory_stats();
void reset_host_peak();
void empty_host_cache();
void set_host_memory_limit(std::size_t bytes);
std::size_t host_memory_limit();

}  // namespace extensor::detail
