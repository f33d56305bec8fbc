// Images in files, in any supported format.
#pragma once

#include "extensor/data/readers.h"
#include "extensor/tensor.h"
#include "io/byte_source.h"

namespace extensor::io {

// Throws FormatError, prefixed with the label, for more than `most` pixels.
void check_pixels(const std::string& label, std::int64_t width, std::int64_t height,
                  std::int64_t most);

// Netpbm's P2, P3, P5 and P6: uint8 [channels, height, width]. Throws FormatError.
bool is_pnm(std::string_view file);
Tensor read_pnm(const std::string& label, std::string_view file,
                std::int64_t max_pixels = data::default_max_pixels);

// Reads PNG, JPEG or Netpbm.
Tensor read_image(const ByteSource& source, std::int64_t max_pixels = data::default_max_pixels);

}  // namespace extensor::io
