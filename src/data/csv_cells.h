// The cells of a CSV file, row by row.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "io/byte_source.h"

namespace extensor::io {

// Throws ValueError for a separator that may be part of a number, a quote or the end of a line.
void check_separator(const char* operation, char separator);

class CsvCells {
 public:
  // The label and the text must outlive this. With `newlines`, a quoted cell may contain them.
  CsvCells(const std::string& label, std::string_view text, char separator, bool newlines);

  bool more() const { return !left_.empty(); }
  // Begins the next row. Throws FormatError for an empty line; those at the end are ignored.
  void next_row();
  // Reads the next cell of the row, without quotes and surrounding blanks; false after the last
  // cell. The text is valid until the next call. Throws FormatError.
  bool next(std::string_view& cell);

  // Throws FormatError about the last cell read.
  template <class... Parts>
  [[noreturn]] void wrong(const Parts&... parts) const {
    damaged(label_, "line ", cell_line_, ", column ", column_, ": ", parts...);
  }
  // Throws FormatError unless the row had as many cells as the first.
  void check_count(std::size_t found, std::size_t expected) const {
    if (found != expected) {
      wrong("the line ends behind ", found, " cells, the first has ", expected);
    }
  }

 private:
  bool is_blank(char c) const { return (c == ' ' || c == '\t') && c != separator_; }
  void skip_blanks();
  void read_quoted();
  std::size_t plain_size() const;

  const std::string& label_;
  std::string_view left_;
  std::string quoted_;  // a cell with quotes inside
  std::size_t line_ = 1, cell_line_ = 1, column_ = 0;
  char separator_;
  bool newlines_, ended_ = true;
};

enum class Parsed : unsigned char { number, out_of_range, none };
// Parses all of a cell as a number; "nan" and "inf" are numbers.
Parsed parse_number(std::string_view cell, double& value);

}  // namespace extensor::io
