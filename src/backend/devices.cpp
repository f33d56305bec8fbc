#include <fstream>

#include "core/machine.h"
#include "core/simd/target.h"
#include "extensor/device.h"
#include "extensor/threads.h"

namespace extensor {

namespace {

std::string processor_name() {
  std::ifstream lines("/proc/cpuinfo");
  std::string line;
  while (std::getline(lines, line)) {
    if (line.rfind("model name", 0) != 0) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

}  // namespace

std::vector<DeviceInfo> devices() {
  return {{cpu_device, processor_name(), detail::name(detail::simd_target()), get_num_threads(),
           detail::machine_bytes()}};
}

}  // namespace extensor
