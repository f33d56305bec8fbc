// Marks cached memory that must not be touched for AddressSanitizer. A no-op in other builds.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define EXTENSOR_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EXTENSOR_ADDRESS_SANITIZER 1
#endif
#endif

#ifdef EXTENSOR_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace extensor::detail {

#ifdef EXTENSOR_ADDRESS_SANITIZER
inline constexpr bool address_sanitizer = true;
inline void poison(const void* memory, std::size_t bytes) {
  __asan_poison_memory_region(memory, bytes);
}
inline void unpoison(const void* memory, std::size_t bytes) {
  __asan_unpoison_memory_region(memory, bytes);
}
#else
inline constexpr bool address_sanitizer = false;
inline void poison(const void*, std::size_t) {}
inline void unpoison(const void*, std::size_t) {}
#endif

}  // namespace extensor::detail
