#include "cli/device_option.h"

#include <extensor/cuda.h>
#include <extensor/extensor.h>

#include <algorithm>
#include <iostream>
#include <limits>

#include "backend/device.h"
#include "cli/terminal.h"
#include "cli/validators.h"
#include "io/text.h"

namespace extensor::cli {

namespace {

// Nullopt for any text that names no device.
std::optional<Device> device_named(const std::string& text) {
  if (text == "cpu") return cpu_device;
  if (text == "cuda") return cuda();
  const std::string prefix = "cuda:";
  std::int16_t index = 0;
  if (!text.starts_with(prefix) ||
      parse_number(text.substr(prefix.size()), index) != Parsed::number || index < 0) {
    return std::nullopt;
  }
  return cuda(index);
}

std::string refusal(const std::string& text) {
  return "is " + io::in_quotes(text) + io::did_you_mean(text, {"cpu", "cuda"}) +
         " (allowed: cpu, cuda or cuda:N)";
}

}  // namespace

Device parse_device(const std::string& text) {
  if (const std::optional<Device> device = device_named(text)) return *device;
  throw ValueError("--device " + refusal(text));
}

Device available_device(const std::string& text) {
  const Device device = parse_device(text);
  backend::available_interface(device, "--device");
  return device;
}

Device device_of_rank(const std::string& text, int local_rank) {
  const Device device = available_device(text);
  if (text != "cuda") return device;
  const std::vector<DeviceInfo> all = devices();
  const auto count = std::ranges::count_if(
      all, [](const DeviceInfo& info) { return info.device.type == Device::Type::cuda; });
  return cuda(static_cast<int>(local_rank % count));
}

void add_device_option(CLI::App& command, std::optional<std::string>& device) {
  command
      .add_option("--device", device,
                  "Where to compute: cpu, cuda or cuda:N; without it, where the run was trained")
      ->type_name("DEVICE")
      ->check([](const std::string& text) {
        return device_named(text) ? std::string() : refusal(text);
      });
}

Device device_for_run(const std::optional<std::string>& requested, const std::string& of_run) {
  if (requested) return available_device(*requested);
  try {
    return available_device(of_run);
  } catch (const DeviceError& error) {
    std::cerr << "extensor: warning: the run was trained on " << of_run
              << ", this is computed on the cpu: " << error.what() << '\n';
    return cpu_device;
  }
}

}  // namespace extensor::cli
