// Where a tensor's memory lives.
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
  // `test` is for devices that test programs register; the library has none.
  enum class Type : std::uint8_t { cpu, cuda, test };

  Type type = Type::cpu;
  std::int16_t index = 0;

  // Lets zeros(shape, device) stand for zeros(shape, {.device = device}); see creation.h.
  operator TensorOptions() const;  // NOLINT: implicit

  friend bool operator==(const Device&, const Device&) = default;
};

inline constexpr Device cpu_device{};

// "cpu", "cuda:0"
std::string to_string(const Device& device);

struct DeviceInfo {
  Device device;
  std::string name;          // of the processor, as it calls itself
  std::string kernels;       // which kernels run there: "avx512"
  int threads;               // that kernels use
  std::size_t memory_bytes;  // its memory, or what this process may have of it
};

// Every device this build can use on this machine.
std::vector<DeviceInfo> devices();

// The device of tensors that this thread creates without naming one: the CPU unless it is set.
//   set_default_device(devices().back().device);
//   Tensor x = zeros({2, 3});   // there
// It does not move tensors that exist, and results of ops are where their operands are. Memory that
// is wrapped, files and batches of a data::DataLoader stay on the CPU. DeviceError for a device
// that is not available.
Device default_device();
void set_default_device(Device device);

// The same for as long as the object lives.
class [[nodiscard]] DefaultDevice {
 public:
  explicit DefaultDevice(Device device);
  DefaultDevice(const DefaultDevice&) = delete;
  DefaultDevice& operator=(const DefaultDevice&) = delete;
  ~DefaultDevice();

 private:
  Device before_;
};

// Waits until the device has finished all work. Throws the errors of that work that were not
// reported yet, such as an IndexError for an index that a kernel found out of range. The CPU never
// has work outstanding. DeviceError for a device that is not available.
void synchronize(Device device);

}  // namespace extensor

EXTENSOR_END_API
