// The format of MNIST: two bytes of 0, one for the dtype, one for the rank; the dimensions in four
// bytes each; the elements. All numbers have their highest byte first.
#pragma once

#include "extensor/tensor.h"
#include "io/byte_source.h"

namespace extensor::io {

// Plain or compressed by gzip. FormatError.
Tensor read_idx(const ByteSource& source);

}  // namespace extensor::io
