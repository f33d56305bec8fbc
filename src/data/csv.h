// Numbers in lines of text.
#pragma once

#include "extensor/data/readers.h"
#include "io/byte_source.h"

namespace extensor::io {

// FormatError, naming the line and the column.
data::Table read_csv(const ByteSource& source, const data::CsvOptions& options);

}  // namespace extensor::io
