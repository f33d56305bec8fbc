// NumPy's archive of arrays on any source and sink: a zip archive of npy files.
#pragma once

#include <string>

#include "extensor/named_tensors.h"
#include "io/byte_sink.h"
#include "io/byte_source.h"
#include "io/zip.h"

namespace extensor::io {

NamedTensors read_npz(const ByteSource& source, bool check_crc = true);

// `label` begins the messages. ValueError, FormatError for bfloat16.
void check_npz(const std::string& label, const NamedTensors& tensors);
// For tensors that were checked.
void write_npz(ByteSink& sink, const NamedTensors& tensors, const ZipLimits& limits = {});

}  // namespace extensor::io
