#include "extensor/device.h"

namespace extensor {

std::string to_string(const Device& device) {
  if (device == cpu_device) return "cpu";
  constexpr const char* names[] = {"cpu", "cuda", "test"};
  const auto type = static_cast<std::size_t>(device.type);
  return std::string(type < std::size(names) ? names[type] : "unknown") + ":" +
         std::to_string(device.index);
}

}  // namespace extensor
