// What each thread keeps for itself so that a small tensor comes and goes without a lock: magazines
// of freed blocks, a list of freed TensorImpl, and its share of the statistics.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/size_classes.h"

namespace extensor::detail {

// A freed small block. The link sits behind the fields of the Storage it was, so that
// AddressSanitizer can guard all of those while LeakSanitizer still follows the list.
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
  // Only its own thread writes these; atomic because memory_stats reads them from others.
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
  ThreadCache* next = nullptr;  // of all threads
  ThreadCache* previous = nullptr;
};

// This thread's, or nullptr before the first allocation and after the thread's end. One pointer of
// static thread-local storage: no call to find it, and little enough to be loaded by dlopen.
extern constinit thread_local ThreadCache* current_thread_cache
    __attribute__((tls_model("initial-exec")));

// Makes this thread's cache; nullptr when the thread is ending.
ThreadCache* attach_thread_cache();

inline ThreadCache* thread_cache() {
  ThreadCache* cache = current_thread_cache;
  return cache != nullptr ? cache : attach_thread_cache();
}

}  // namespace extensor::detail
