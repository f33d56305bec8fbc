// The memory of tensors: reference-counted and shared by all views.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "extensor/device.h"
#include "extensor/export.h"

EXTENSOR_BEGIN_API

namespace extensor {

// The CPU allocator places the data right after this header, so that a tensor costs one allocation.
// Memory of another device, or memory that the caller owns, is pointed to. The allocator sets
// `release`, which frees both.
struct alignas(64) Storage {
  std::atomic<std::uint32_t> references{1};
  Device device;
  bool read_only = false;  // a write through a tensor throws ValueError
  void* data = nullptr;
  std::size_t bytes = 0;
  std::atomic<std::uint64_t> version{0};  // counts writes in place, so that autograd notices them
  void (*release)(Storage*) = nullptr;
  void* context = nullptr;
};

// A counted reference to a Storage.
class StoragePointer {
 public:
  StoragePointer() = default;
  explicit StoragePointer(Storage* adopted) : storage_(adopted) {}
  StoragePointer(const StoragePointer& other) : storage_(other.storage_) {
    if (storage_ != nullptr) storage_->references.fetch_add(1, std::memory_order_relaxed);
  }
  StoragePointer(StoragePointer&& other) noexcept
      : storage_(std::exchange(other.storage_, nullptr)) {}
  StoragePointer& operator=(StoragePointer other) noexcept {
    std::swap(storage_, other.storage_);
    return *this;
  }
  ~StoragePointer() {
    if (storage_ == nullptr) return;
    // The last owner needs no atomic decrement: nobody else can be counting.
    if (storage_->references.load(std::memory_order_acquire) == 1 ||
        storage_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      storage_->release(storage_);
    }
  }

  Storage* get() const { return storage_; }
  Storage* operator->() const { return storage_; }

 private:
  Storage* storage_ = nullptr;
};

// `bytes` uninitialised bytes, 64-byte aligned, from the device's caching allocator.
// OutOfMemoryError when the device or the limit has no room, DeviceError when the device is not
// available; both name `operation`.
StoragePointer allocate_storage(std::size_t bytes, Device device, const char* operation);

// Memory that the caller owns; `release(context)` runs when the last tensor on it is gone.
StoragePointer wrap_storage(void* data, std::size_t bytes, Device device, void (*release)(void*),
                            void* context);

}  // namespace extensor

EXTENSOR_END_API
