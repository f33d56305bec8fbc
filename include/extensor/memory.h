// The caching allocator seen from outside: what it holds, a limit, and a way to give memory back.
#pragma once

#include <cstddef>
#include <cstdint>

namespace extensor {

struct MemoryStats {
  std::size_t allocated_bytes;       // in tensors alive now, rounded up to size classes
  std::size_t peak_allocated_bytes;  // the most that ever was, since the last reset
  std::size_t cached_bytes;          // freed by tensors, kept for the next ones
  std::uint64_t allocations;         // how often a tensor asked for memory
  std::uint64_t cache_hits;          // how many of those needed no call to the system
};

MemoryStats memory_stats();

// Starts a new peak at what is allocated now.
void reset_peak_memory_stats();

// Gives every cached block of all threads' shared cache and of this thread back to the system.
void empty_cache();

// The most bytes that live tensors may hold together; 0 means no limit. An allocation beyond it
// throws OutOfMemoryError and changes nothing.
void set_memory_limit(std::size_t bytes);
std::size_t memory_limit();

}  // namespace extensor
