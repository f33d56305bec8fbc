// Memory that a kernel of the CPU needs while it runs. It comes from the tensors' allocator: it is
// counted, limited and reused like theirs.
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

  // OutOfMemoryError when the machine or the limit has no room.
  T* allocate(std::size_t count) {
    const StoragePointer storage = allocate_host(count * sizeof(T), "scratch memory of a kernel");
    storage->references.fetch_add(1, std::memory_order_relaxed);  // given back by deallocate()
    return static_cast<T*>(storage->data);
  }
  void deallocate(T* data, std::size_t) {
    // The CPU's allocator puts the header right before the data.
    const StoragePointer last(reinterpret_cast<Storage*>(data) - 1);
  }

  friend bool operator==(const ScratchAllocator&, const ScratchAllocator&) { return true; }
};

template <class T>
using Scratch = std::vector<T, ScratchAllocator<T>>;

}  // namespace extensor::detail
