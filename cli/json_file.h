// JSON files of a run, whoever wrote them last.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

namespace extensor::cli {

// The object in a file. IoError unless it is a regular file; FormatError where it has more than
// 16 MiB, is no JSON object, has a key twice, or is nested more than 8 deep.
nlohmann::json read_json(const std::filesystem::path& path);

// Replaces the file as a whole or not at all. IoError.
void write_json(const std::filesystem::path& path, const nlohmann::ordered_json& json);

}  // namespace extensor::cli
