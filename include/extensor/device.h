// Where a tensor's memory lives.
#pragma once

#include <cstdint>
#include <string>

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

}  // namespace extensor
