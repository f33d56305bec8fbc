// Tables in CSV files.
#pragma once

#include "extensor/data/table.h"
#include "io/byte_source.h"

namespace extensor::io {

data::Table read_table(const ByteSource& source, const data::TableOptions& options);

}  // namespace extensor::io

namespace extensor::data {

// The shortest text that reads back as the same number.
std::string text_of(double number);

}  // namespace extensor::data
