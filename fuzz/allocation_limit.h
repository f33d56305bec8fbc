// A reader must not allocate more than twice the file size plus 1 MiB, whatever the file claims.
#pragma once

#include <sanitizer/allocator_interface.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "extensor/memory.h"

namespace extensor::fuzz {

// Aborts if the live allocations made during its lifetime exceed the limit. At most one may exist.
class AllocationLimit {
 public:
  explicit AllocationLimit(std::size_t file_size) : most_(2 * file_size + (1U << 20)) {
    static const int installed = __sanitizer_install_malloc_and_free_hooks(count, discount);
    if (installed == 0) std::abort();
    reset_peak_memory_stats();
    before_ = memory_stats().allocated_bytes;
    left_ = static_cast<std::int64_t>(most_);
    counts_ = true;
  }
  AllocationLimit(const AllocationLimit&) = delete;
  AllocationLimit& operator=(const AllocationLimit&) = delete;
  ~AllocationLimit() {
    counts_ = false;
    // Large blocks of tensors do not come from malloc.
    if (memory_stats().peak_allocated_bytes > before_ + most_) fail();
  }

 private:
  static void fail() {
    counts_ = false;
    std::fputs("AllocationLimit: more than twice the file and 1 MiB\n", stderr);
    std::abort();
  }
  static void count(const volatile void* /*memory*/, std::size_t size) {
    if (!counts_) return;
    left_ -= static_cast<std::int64_t>(size);
    if (left_ < 0) fail();
  }
  static void discount(const volatile void* memory) {
    if (!counts_ || memory == nullptr) return;
    left_ +=
        static_cast<std::int64_t>(__sanitizer_get_allocated_size(const_cast<const void*>(memory)));
  }

  inline static bool counts_ = false;
  inline static std::int64_t left_ = 0;
  std::size_t most_, before_ = 0;
};

}  // namespace extensor::fuzz
