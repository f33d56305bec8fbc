// Devices. A DeviceInterface holds everything that the library needs from a device type: memory,
// copies, waiting and kernels. The CPU's is static; others are registered when their library is
// loaded, or by a test.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/backend.h"
#include "extensor/device.h"
#include "extensor/export.h"
#include "extensor/memory.h"
#include "extensor/storage.h"

// Device libraries use these functions.
EXTENSOR_BEGIN_API

namespace extensor::backend {

// Counts changes of DeviceInterface, Backend and the calls: a library built against another version
// is rejected.
inline constexpr std::uint32_t device_interface_version = 10;

// Moves `bytes` bytes. One side is the host, or both are devices of one type.
struct CopyCall {
  void* to;
  Device to_device;
  const void* from;
  Device from_device;
  std::size_t bytes;
};

// `index` is 0 … count() − 1. Functions throw DeviceError if the device fails.
struct DeviceInterface {
  std::uint32_t version = device_interface_version;  // the first member in every version
  int (*count)();
  DeviceInfo (*info)(int index);

  // The storage's `release` frees the memory. OutOfMemoryError, naming `operation`.
  StoragePointer (*allocate)(std::size_t bytes, int index, const char* operation);
  // Ordered with the kernels of the device. When it returns, a copy to the host is complete, and
  // `from` on the host may be changed.
  void (*copy)(const CopyCall&);
  // Starts to copy at most 8 bytes to the host, ordered with the kernels. finish_read waits for
  // that copy, not for work launched later, and writes the bytes; without `to` it only releases the
  // ticket.
  std::uint64_t (*begin_read)(const void* from, std::size_t bytes, int index);
  void (*finish_read)(std::uint64_t ticket, void* to, std::size_t bytes, int index);
  // Starts to copy from the host, beside the work that is launched from now on. `from` may be
  // changed when it returns; `to` may be used, and freed, after finish_upload. That does not wait:
  // the work launched after it runs after the copy.
  std::uint64_t (*begin_upload)(void* to, const void* from, std::size_t bytes, int index);
  void (*finish_upload)(std::uint64_t ticket, int index);
  // Waits for all work, then throws the errors that kernels reported (backend/checks.h). Every
  // other function in which the host waits throws them, too.
  void (*synchronize)(int index);

  MemoryStats (*memory)(int index);
  void (*reset_peak)(int index);
  void (*empty_cache)(int index);
  void (*set_memory_limit)(std::size_t bytes, int index);
  std::size_t (*memory_limit)(int index);

  Backend kernels;
};

extern const DeviceInterface cpu_interface;

// Makes the devices of a type available for the rest of the program; `interface` must live as long.
// DeviceError if its version differs, or if the type already has another interface.
void register_device(Device::Type type, const DeviceInterface& interface);

// Null if the type has none.
const DeviceInterface* registered_interface(Device::Type type);

// DeviceError, naming `operation`, if the device is not available.
const DeviceInterface& available_interface(Device device, const char* operation);

inline const DeviceInterface& interface_of(Device device, const char* operation = "device") {
  if (device.type == Device::Type::cpu) [[likely]] {
    return cpu_interface;
  }
  return available_interface(device, operation);
}

}  // namespace extensor::backend

EXTENSOR_END_API
