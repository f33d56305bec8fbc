#include "core/machine.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <cstdint>
#include <fstream>

namespace extensor::detail {

namespace {

std::size_t ask_machine_bytes() {
  struct sysinfo machine {};
  if (sysinfo(&machine) != 0) return SIZE_MAX / 2;
  const std::size_t swap = static_cast<std::size_t>(machine.totalswap) * machine.mem_unit;
  std::size_t memory = static_cast<std::size_t>(machine.totalram) * machine.mem_unit;
  // A container may be allowed less than the machine has (control groups, version 2 and 1).
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream file(path);
    std::size_t allowed = 0;
    if (file >> allowed && allowed != 0) memory = std::min(memory, allowed);  // else it says "max"
  }
  return memory + swap;
}

}  // namespace

std::size_t machine_bytes() {
  static const std::size_t bytes = ask_machine_bytes();
  return bytes;
}

}  // namespace extensor::detail
