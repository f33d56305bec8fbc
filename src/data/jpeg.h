// JPEG images (ITU-T T.81), decoded by libjpeg-turbo.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "extensor/data/readers.h"
#include "extensor/tensor.h"

namespace extensor::io {

bool is_jpeg(std::span<const std::byte> file);

// Returns uint8 [1 or 3, height, width], turned as the EXIF orientation asks. Throws FormatError,
// also in a build without libjpeg.
Tensor read_jpeg(const std::string& label, std::span<const std::byte> file,
                 std::int64_t max_pixels = data::default_max_pixels);

// The orientation in the data of an APP1 segment, 1 … 8; 0 if it has none or is no valid EXIF.
int exif_orientation(std::span<const std::uint8_t> segment);

}  // namespace extensor::io
