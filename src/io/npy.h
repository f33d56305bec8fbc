// NumPy's array format, on any stream and sink.
//
// An array is: "\x93NUMPY", the version in two bytes, the length of the header in two (version 1)
// or four (2, 3) bytes, little-endian; the header, a Python dict of descr, fortran_order and shape;
// the elements.
#pragma once

#include <string>
#include <string_view>

#include "extensor/tensor.h"
#include "io/byte_sink.h"
#include "io/byte_source.h"

namespace extensor::io {

struct NpyHeader {
  DType dtype = DType::float32;
  bool big_endian = false;
  bool fortran_order = false;
  Shape shape;
};

// Parses the dict. Throws FormatError.
NpyHeader parse_npy_header(const std::string& label, std::string_view text);

// Reads the rest of the stream. Throws FormatError.
Tensor read_npy(ByteStream& stream);

// The bytes before the elements. Throws FormatError for bfloat16.
std::string npy_preamble(const std::string& label, const Tensor& tensor);
void write_npy(ByteSink& sink, const std::string& label, const Tensor& tensor);

}  // namespace extensor::io
