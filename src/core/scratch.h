// Temporary memory of CPU kernels. It comes from the tensors' allocator, so it is counted, limited
// and reused like theirs.
#pragma once

#include <cstddef>
#include <vector>

#include "core/allocator.h"

namespace extensor::detail {

template <class T>
class ScratchAllocator {
 public:
  using value_type = T;

  ScratchAllocator() = default;
  template <class Other>
  ScratchAllocator(const ScratchAllocator<Other>&) {}  // NOLINT: implicit, as std::vector wants it

  // OutOfMemoryError if the machine or the limit does not allow it.
  T* allocate(std::size_t count) {
    const StoragePointer storage = allocate_host(count * sizeof(T), "scratch memory of a kernel");
    storage->references.fetch_add(1, std::memory_order_relaxed);  // released by deallocate()
    return static_cast<T*>(storage->data);
  }
  void deallocate(T* data, std::size_t) {
    // The CPU's allocator places the header right before the data.
    const StoragePointer last(reinterpret_cast<Storage*>(data) - 1);
  }

  friend bool operator==(const ScratchAllocator&, const ScratchAllocator&) { return true; }
};

template <class T>
using Scratch = std::vector<T, ScratchAllocator<T>>;

}  // namespace extensor::detail
