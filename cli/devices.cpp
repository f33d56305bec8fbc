#include <extensor/cuda.h>
#include <extensor/extensor.h>

#include <iostream>

#include "cli/commands.h"
#include "cli/terminal.h"

namespace extensor::cli {

void add_devices_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("devices", "What this machine can compute on");
  command->footer("Example:\n  extensor devices");
  command->callback([] {
    std::vector<std::vector<std::string>> rows = {
        {"device", "name", "kernels", "threads", "memory"}};
    for (const DeviceInfo& info : devices()) {
      const double gibibytes = static_cast<double>(info.memory_bytes) / (1 << 30);
      rows.push_back({to_string(info.device), info.name, info.kernels, std::to_string(info.threads),
                      short_number(gibibytes) + " GiB"});
    }
    std::cout << table(rows);
    if (!cuda_is_available()) std::cout << "no CUDA device: " << cuda_unavailable_reason() << '\n';
  });
}

}  // namespace extensor::cli
