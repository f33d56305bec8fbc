// Counts allocations and records the largest one. Include it in one file of a program: it replaces
// operator new. Sanitizers replace operator new themselves; both counters stay 0 there.
#pragma once

#include <atomic>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define EXTENSOR_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define EXTENSOR_SANITIZED
#endif
#endif

namespace test_support {
inline std::atomic<std::size_t> allocations{0}, largest_allocation{0};

inline void count_allocation(std::size_t size) {
  ++allocations;
  if (size > largest_allocation) largest_allocation = size;
}
}  // namespace test_support

#ifndef EXTENSOR_SANITIZED
// Not inlined, so that the compiler does not see a free without its malloc.
[[gnu::noinline]] void* operator new(std::size_t size) {
  test_support::count_allocation(size);
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  test_support::count_allocation(size);
  return std::malloc(size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif
