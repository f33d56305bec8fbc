// Checksums of tensors, stored in the metadata of the safetensors file that contains them. The file
// remains valid safetensors: programs that do not know the keys ignore them.
#pragma once

#include <string>
#include <string_view>

#include "extensor/io.h"

namespace extensor::io {

// Key prefixes by kind of file: KEY is the checksum of the metadata, KEY.NAME that of a tensor.
inline constexpr std::string_view checkpoint_checksum = "checksum";
inline constexpr std::string_view weights_checksum = "extensor.checksum";

// Adds a checksum of each tensor (CRC-32 of its name, dtype, shape and bytes) and of the metadata.
void add_checksums(std::string_view key, const NamedTensors& tensors, Metadata& metadata);

bool has_checksums(std::string_view key, const Metadata& metadata);

// Throws FormatError, prefixed with the label, that names a tensor whose checksum differs or is
// missing.
void check_checksums(std::string_view key, const std::string& label, const Safetensors& file);

// Removes what add_checksums added.
void remove_checksums(std::string_view key, Metadata& metadata);

}  // namespace extensor::io
