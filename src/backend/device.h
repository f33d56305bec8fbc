// Devices. A DeviceInterface holds everything that the library needs of a device type: memory,
// copies, waiting and kernels. The CPU's is static; others are registered when their library is
// loaded, or by a test.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/backend.h"
#include "extensor/device.h"
#include "extensor/memory.h"
#include "extensor/storage.h"

namespace extensor::backend {

// Counts changes of DeviceInterface, Backend and the calls: a library built against other versions
// of them is refused.
inline constexpr std::uint32_t device_interface_version = 1;

// Abilities of kernels that not every device has. An op casts halves to float32 where the
// kernels do not take them.
struct Capabilities {
  bool half_convolution = false;
  bool half_pooling = false;
  bool half_attention_backward = false;
  bool half_recurrent = false;
};

// Moves `bytes` bytes. The host is one of both sides, or both are devices of one type.
struct CopyCall {
  void* to;
  Device to_device;
  const void* from;
  Device from_device;
  std::size_t bytes;
};

// `index` is 0 … count() − 1. Functions throw DeviceError where the device fails.
struct DeviceInterface {
  std::uint32_t version = device_interface_version;  // the first member in every version
  int (*count)();
  DeviceInfo (*info)(int index);

  // The storage's `release` gives the memory back. OutOfMemoryError, naming `operation`.
  StoragePointer (*allocate)(std::size_t bytes, int index, const char* operation);
  // Ordered with the kernels of the device. A copy to the host has arrived when it returns, and
  // `from` on the host may be changed then.
  void (*copy)(const CopyCall&);
  // Sets every byte to `value`, ordered with the kernels.
  void (*fill)(void* data, std::size_t bytes, int value, int index);
  // Waits for all work, then throws what kernels reported.
  void (*synchronize)(int index);

  MemoryStats (*memory)(int index);
  void (*reset_peak)(int index);
  void (*empty_cache)(int index);
  void (*set_memory_limit)(std::size_t bytes, int index);
  std::size_t (*memory_limit)(int index);

  Backend kernels;
  Capabilities can;
};

extern const DeviceInterface cpu_interface;

// Makes the devices of a type available for the rest of the program; `interface` must live as long.
// DeviceError when its version differs, or when the type has another interface already.
void register_device(Device::Type type, const DeviceInterface& interface);

// Null where the type has none.
const DeviceInterface* registered_interface(Device::Type type);

// DeviceError, naming `operation`, when the device is not available.
const DeviceInterface& available_interface(Device device, const char* operation);

inline const DeviceInterface& interface_of(Device device, const char* operation = "device") {
  if (device.type == Device::Type::cpu) [[likely]] {
    return cpu_interface;
  }
  return available_interface(device, operation);
}

}  // namespace extensor::backend
