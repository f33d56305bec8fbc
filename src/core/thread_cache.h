// Per-thread caches that let small tensors be allocated and freed without a lock: magazines of
// freed blocks, a list of freed TensorImpl, and the thread's share of the statistics.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/size_classes.h"

namespace extensor::detail {

// A freed small block. The link follows the fields of the former Storage, so that AddressSanitizer
// can guard all of those while LeakSanitizer still follows the list.
struct FreeBlock {
  std::byte was_storage[56];
  FreeBlock* next;
};

struct Magazine {
  FreeBlock* first = nullptr;
  std::uint32_t count = 0;
};

struct FreeImpl {
  FreeImpl* next;
};

struct ThreadCache {
  // Only the owning thread writes these; they are atomic because memory_stats reads them elsewhere.
  template <class T>
  struct Counter {
    std::atomic<T> value{0};
    T get() const { return value.load(std::memory_order_relaxed); }
    void set(T to) { value.store(to, std::memory_order_relaxed); }
    void add(T more) { set(get() + more); }
  };

  std::array<Magazine, small_class_count> magazines;
  FreeImpl* free_impls = nullptr;
  std::uint32_t free_impl_count = 0;
  Counter<std::int64_t> pending;  // allocated minus freed, not yet in the shared total
  Counter<std::int64_t> pending_peak;
  Counter<std::size_t> cached_bytes;
  Counter<std::uint64_t> allocations;
  Counter<std::uint64_t> cache_hits;
  ThreadCache* next = nullptr;  // in the list of all threads
  ThreadCache* previous = nullptr;
};

// This thread's cache, or nullptr before the first allocation and after the thread's end. It is one
// pointer in static thread-local storage: access needs no call, and it is small enough for a
// library loaded by dlopen.
extern constinit thread_local ThreadCache* current_thread_cache
    __attribute__((tls_model("initial-exec")));

// Creates this thread's cache; nullptr if the thread is ending.
ThreadCache* attach_thread_cache();

inline ThreadCache* thread_cache() {
  ThreadCache* cache = current_thread_cache;
  return cache != nullptr ? cache : attach_thread_cache();
}

}  // namespace extensor::detail
