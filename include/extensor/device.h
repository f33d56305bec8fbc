// Devices: the place of a tensor's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "extensor/export.h"

EXTENSOR_BEGIN_API

namespace extensor {

struct TensorOptions;

struct Device {
  // `test` is for devices that test programs register; the library defines none.
  enum class Type : std::uint8_t { cpu, cuda, test };

  Type type = Type::cpu;
  std::int16_t index = 0;

  // Lets callers write zeros(shape, device) for zeros(shape, {.device = device}); see creation.h.
  operator TensorOptions() const;  // NOLINT: implicit

  friend bool operator==(const Device&, const Device&) = default;
};

inline constexpr Device cpu_device{};

// "cpu", "cuda:0"
std::string to_string(const Device& device);

struct DeviceInfo {
  Device device;
  std::string name;          // the processor's own name
  std::string kernels;       // which kernels run there: "avx512"
  int threads;               // the number that kernels use
  std::size_t memory_bytes;  // total, or the part that this process may use
};

// All devices that this build can use on this machine.
std::vector<DeviceInfo> devices();

// The device on which this thread creates tensors by default: the CPU unless set otherwise.
//   set_default_device(devices().back().device);
//   Tensor x = zeros({2, 3});   // there
// It does not move existing tensors, and results of ops stay on the device of their operands.
// Wrapped memory, files and batches of a data::DataLoader stay on the CPU. DeviceError if the
// device is not available.
Device default_device();
void set_default_device(Device device);

// Sets the default device for as long as the object lives.
class [[nodiscard]] DefaultDevice {
 public:
  explicit DefaultDevice(Device device);
  DefaultDevice(const DefaultDevice&) = delete;
  DefaultDevice& operator=(const DefaultDevice&) = delete;
  ~DefaultDevice();

 private:
  Device before_;
};

// Waits until the device has finished all work. Throws errors of that work that were not reported
// yet, such as an IndexError for an index that a kernel found out of range. The CPU never has
// outstanding work. DeviceError if the device is not available.
void synchronize(Device device);

}  // namespace extensor

EXTENSOR_END_API
