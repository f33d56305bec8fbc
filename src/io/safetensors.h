// The safetensors format, on any source and sink.
//
// A file is: 8 bytes, the length of the header, little-endian; the header, a JSON object; the data.
// The header names each tensor's dtype, shape and span of the data; the spans fill the data without
// gaps or overlaps.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "extensor/io.h"
#include "io/byte_sink.h"
#include "io/byte_source.h"

namespace extensor::io {

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::float32;
  Shape shape;
  std::uint64_t begin = 0, end = 0;  // relative to the first byte of the data
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their data
  Metadata metadata;
  std::uint64_t data_begin = 0;  // offset in the file
};

// Validates everything that can be checked before the data is read. Throws FormatError.
SafetensorsHeader read_safetensors_header(const ByteSource& source);

Safetensors read_safetensors(const ByteSource& source);
Safetensors map_safetensors(const FileSource& file);

// Errors begin with `label`. Throws ValueError.
void check_safetensors(const std::string& label, const NamedTensors& tensors,
                       const Metadata& metadata);
// Requires tensors that passed check_safetensors.
void write_safetensors(ByteSink& sink, const NamedTensors& tensors, const Metadata& metadata);

// The format's name for a dtype: "F32".
std::string_view safetensors_name(DType dtype);

}  // namespace extensor::io
