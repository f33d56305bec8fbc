// The JSON files of a run, which users may have edited.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

namespace extensor::cli {

// Reads the object in a file. Throws IoError unless it is a regular file, and FormatError if it is
// larger than 16 MiB, is not a JSON object, has a duplicate key or is nested more than 8 deep.
nlohmann::json read_json(const std::filesystem::path& path);

// Replaces the file atomically. Throws IoError.
void write_json(const std::filesystem::path& path, const nlohmann::ordered_json& json);

}  // namespace extensor::cli
