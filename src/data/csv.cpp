#include "data/csv.h"

#include <limits>

#include "data/csv_cells.h"
#include "data/whole_file.h"
#include "io/text.h"

namespace extensor {

namespace io {

namespace {

double number_of(const CsvCells& cells, std::string_view cell) {
  if (cell.empty()) return std::numeric_limits<double>::quiet_NaN();
  double value = 0;
  const Parsed parsed = parse_number(cell, value);
  if (parsed == Parsed::none) cells.wrong(in_quotes(cell), " is no number");
  if (parsed == Parsed::out_of_range) cells.wrong(in_quotes(cell), " is beyond float64");
  return value;
}

// The size of a file, known before memory is allocated for it.
struct Extent {
  std::size_t rows = 0, columns = 0;  // rows includes the line of column names
  bool names = false;                 // whether the first line contains a cell that is not a number
};

Extent extent_of(CsvCells cells) {
  Extent extent;
  for (; cells.more(); ++extent.rows) {
    cells.next_row();
    std::size_t found = 0;
    for (std::string_view cell; cells.next(cell); ++found) {
      double ignored = 0;
      if (extent.rows == 0) {
        extent.names =
            extent.names || (!cell.empty() && parse_number(cell, ignored) == Parsed::none);
      } else if (found == extent.columns) {
        cells.wrong("the line has more than the ", extent.columns, " cells of the first");
      }
    }
    if (extent.rows == 0) extent.columns = found;
    cells.check_count(found, extent.columns);
  }
  return extent;
}

}  // namespace

data::NumericTable read_csv(const ByteSource& source, const data::CsvOptions& options) {
  const std::string& label = source.label();
  const WholeFile file(source);
  CsvCells cells(label, file.text(), options.separator, false);
  if (!cells.more()) damaged(label, "has no line");
  const Extent extent = extent_of(cells);
  const bool header = options.header.value_or(extent.names);

  data::NumericTable table;
  std::string_view cell;
  if (header) {
    table.columns.reserve(extent.columns);
    for (cells.next_row(); cells.next(cell);) table.columns.emplace_back(cell);
  }
  table.values = detail::make_empty(label.c_str(),
                                    {static_cast<std::int64_t>(extent.rows - (header ? 1 : 0)),
                                     static_cast<std::int64_t>(extent.columns)},
                                    DType::float64, cpu_device);
  auto* value = table.values.data<double>();
  while (cells.more()) {
    for (cells.next_row(); cells.next(cell);) *value++ = number_of(cells, cell);
  }
  return table;
}

}  // namespace io

namespace data {

NumericTable load_csv(const std::filesystem::path& path, const CsvOptions& options) {
  io::check_separator("load_csv", options.separator);
  return io::read_csv(io::FileSource("load_csv", path), options);
}

}  // namespace data

}  // namespace extensor
