// Pictures in files, whichever of the formats they have.
#pragma once

#include "extensor/tensor.h"
#include "io/byte_source.h"

namespace extensor::io {

// P2, P3, P5 or P6 of Netpbm: uint8 [channels, height, width]. FormatError.
bool is_pnm(std::string_view file);
Tensor read_pnm(const std::string& label, std::string_view file);

// PNG or one of the above.
Tensor read_image(const ByteSource& source);

}  // namespace extensor::io
