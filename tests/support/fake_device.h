// A device for tests: its memory has real addresses that the host cannot read, and its kernels are
// the CPU's. An access of device memory on the host crashes, a kernel that receives host memory
// throws DeviceError, and every wait for the device is counted. Invalid values, such as indices out
// of range, are reported at the next wait, as on a GPU.
#pragma once

#include <cstdint>

#include "extensor/device.h"

namespace extensor::fake_device {

inline constexpr Device first{Device::Type::test, 0};
inline constexpr Device second{Device::Type::test, 1};

// Makes both devices available. Further calls do nothing.
void install();

// The number of times that the host waited for all work of a device: synchronize() and copies to
// the host. Reading a PendingItem waits only for that item, and does not count.
std::int64_t waits();
// The number of times that a PendingItem was read before a kernel was launched after it: the device
// has nothing to do then while the host reads.
std::int64_t idle_reads();
// The number of kernel launches.
std::int64_t launches();
// The number of copies from the host that were started beside other work, and of those that were
// not finished.
std::int64_t uploads();
std::int64_t unfinished_uploads();

// Makes one allocation fail with OutOfMemoryError, after `count` more; −1: none.
void fail_allocation_after(std::int64_t count);

// Whether the device has kernels of complex numbers, as it does at first.
void compute_complex(bool enabled);

// The address that kernels of the device use for an address that the library uses. DeviceError
// unless it is memory of a fake device; null stays null.
void* readable_address(const void* address);

}  // namespace extensor::fake_device
