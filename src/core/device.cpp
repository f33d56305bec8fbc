#include "extensor/device.h"

namespace extensor {

std::string to_string(const Device& device) {
  if (device == cpu_device) return "cpu";
  const char* type = device.type == Device::Type::cpu ? "cpu" : "cuda";
  return std::string(type) + ":" + std::to_string(device.index);
}

}  // namespace extensor
