// Where a tensor's memory lives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace extensor {

struct Device {
  enum class Type : std::uint8_t { cpu, cuda };

  Type type = Type::cpu;
  std::int16_t index = 0;

  friend bool operator==(const Device&, const Device&) = default;
};

inline constexpr Device cpu_device{};

// "cpu", "cuda:0"
std::string to_string(const Device& device);

// What is known of a device that tensors can live on.
struct DeviceInfo {
  Device device;
  std::string name;          // of the processor, as it calls itself
  std::string kernels;       // which kernels run there: "avx512"
  int threads;               // that kernels use
  std::size_t memory_bytes;  // its memory, or what this process may have of it
};

// Every device this build can use on this machine.
std::vector<DeviceInfo> devices();

}  // namespace extensor
