// The option --device of the commands that compute.
#pragma once

#include <extensor/device.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

namespace extensor::cli {

// "cpu", "cuda" for the first CUDA device, or "cuda:1". ValueError for any other text.
Device parse_device(const std::string& text);

// Throws DeviceError, which says what to install, if the device is not available.
Device available_device(const std::string& text);

// That of a process among several on this machine: "cuda" names another device for each of them,
// as long as there are enough. ValueError and DeviceError as above.
Device device_of_rank(const std::string& text, int local_rank);

// Adds --device to a command that uses the network of a run.
void add_device_option(CLI::App& command, std::optional<std::string>& device);

// The device of such a command: the requested one, else that of the run. If the latter is not
// available, warns and returns the CPU. Throws like available_device for a requested device.
Device device_for_run(const std::optional<std::string>& requested, const std::string& of_run);

}  // namespace extensor::cli
