// NumPy's archive of arrays (a zip archive of npy files), on any source and sink.
#pragma once

#include <string>

#include "extensor/named_tensors.h"
#include "io/byte_sink.h"
#include "io/byte_source.h"
#include "io/zip.h"

namespace extensor::io {

NamedTensors read_npz(const ByteSource& source, bool check_crc = true);

// Errors begin with `label`. Throws ValueError, and FormatError for bfloat16.
void check_npz(const std::string& label, const NamedTensors& tensors);
// Requires tensors that passed check_npz.
void write_npz(ByteSink& sink, const NamedTensors& tensors, const ZipLimits& limits = {});

}  // namespace extensor::io
