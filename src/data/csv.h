// Numeric tables in CSV files.
#pragma once

#include "extensor/data/readers.h"
#include "io/byte_source.h"

namespace extensor::io {

// Throws FormatError that names the line and the column.
data::NumericTable read_csv(const ByteSource& source, const data::CsvOptions& options);

}  // namespace extensor::io
