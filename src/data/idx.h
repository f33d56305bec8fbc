// The IDX format of MNIST: two zero bytes, the dtype and the rank in one byte each; the dimensions
// in four bytes each; the elements. All numbers are big-endian.
#pragma once

#include "extensor/tensor.h"
#include "io/byte_source.h"

namespace extensor::io {

// Reads a plain or gzip-compressed source. Throws FormatError.
Tensor read_idx(const ByteSource& source);

}  // namespace extensor::io
