#include "data/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

#include "data/whole_file.h"
#include "io/text.h"

namespace extensor {

namespace io {

namespace {

// Iterates over the cells of a line.
class Line {
 public:
  Line(const std::string& label, std::string_view text, std::size_t number, char separator)
      : label_(label), left_(text), number_(number), separator_(separator) {}

  // Returns false if there are no more cells.
  bool next(std::string& cell) {
    if (ended_) return false;
    ++column_;
    cell.clear();
    skip_blanks();
    if (!left_.empty() && left_.front() == '"') {
      read_quoted(cell);
    } else {
      const std::size_t size = std::min(left_.find(separator_), left_.size());
      cell = left_.substr(0, size);
      while (!cell.empty() && is_blank(cell.back())) cell.pop_back();
      if (cell.find('"') != std::string::npos) wrong("has a quote inside ", in_quotes(cell));
      left_.remove_prefix(size);
    }
    ended_ = left_.empty();
    if (!ended_) left_.remove_prefix(1);
    return true;
  }

  // Throws FormatError about the last cell read.
  template <class... Parts>
  [[noreturn]] void wrong(const Parts&... parts) const {
    damaged(label_, "line ", number_, ", column ", column_, ": ", parts...);
  }

 private:
  bool is_blank(char c) const { return (c == ' ' || c == '\t') && c != separator_; }
  void skip_blanks() {
    while (!left_.empty() && is_blank(left_.front())) left_.remove_prefix(1);
  }
  // Reads a quoted cell, in which two quotes represent one.
  void read_quoted(std::string& cell) {
    for (;;) {
      left_.remove_prefix(1);
      const std::size_t quote = left_.find('"');
      if (quote == std::string_view::npos) wrong("a quote has no end on this line");
      cell += left_.substr(0, quote);
      left_.remove_prefix(quote + 1);
      if (left_.empty() || left_.front() != '"') break;
      cell += '"';
    }
    skip_blanks();
    if (!left_.empty() && left_.front() != separator_) {
      wrong("has ", in_quotes(left_.substr(0, 20)), " behind a quoted cell");
    }
  }

  const std::string& label_;
  std::string_view left_;
  std::size_t number_, column_ = 0;
  char separator_;
  bool ended_ = false;
};

// Iterates over the lines of a text, without line ends and without empty lines at the end.
class Lines {
 public:
  Lines(const std::string& label, std::string_view text, char separator)
      : label_(label), left_(text), separator_(separator) {
    constexpr std::string_view mark = "\xef\xbb\xbf";  // UTF-8 byte order mark
    if (left_.starts_with(mark)) left_.remove_prefix(mark.size());
    while (!left_.empty() && (left_.back() == '\n' || left_.back() == '\r')) left_.remove_suffix(1);
  }
  bool more() const { return !left_.empty(); }
  Line next() {
    ++number_;
    const std::size_t size = std::min(left_.find('\n'), left_.size());
    std::string_view line = left_.substr(0, size);
    left_.remove_prefix(std::min(size + 1, left_.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) damaged(label_, "line ", number_, " is empty");
    return {label_, line, number_, separator_};
  }

 private:
  const std::string& label_;
  std::string_view left_;
  std::size_t number_ = 0;
  char separator_;
};

enum class Kind : std::uint8_t { number, beyond, none };

Kind parse(std::string_view cell, double& value) {
  if (cell.empty()) {
    value = std::numeric_limits<double>::quiet_NaN();
    return Kind::number;
  }
  if (cell.size() > 1 && cell.front() == '+' && cell[1] != '-') cell.remove_prefix(1);
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (end != cell.data() + cell.size() || error == std::errc::invalid_argument) return Kind::none;
  return error == std::errc() ? Kind::number : Kind::beyond;
}

double number_of(const Line& line, const std::string& cell) {
  double value = 0;
  const Kind kind = parse(cell, value);
  if (kind == Kind::none) line.wrong(in_quotes(cell), " is no number");
  if (kind == Kind::beyond) line.wrong(in_quotes(cell), " is beyond float64");
  return value;
}

// The size of a file, known before memory is allocated for it.
struct Extent {
  std::size_t rows = 0, columns = 0;  // rows includes the line of column names
  bool names = false;                 // whether the first line contains a cell that is not a number
};

Extent extent_of(Lines lines) {
  Extent extent;
  std::string cell;
  while (lines.more()) {
    Line line = lines.next();
    std::size_t found = 0;
    for (; line.next(cell); ++found) {
      double ignored = 0;
      if (extent.rows == 0) {
        extent.names = extent.names || parse(cell, ignored) == Kind::none;
      } else if (found == extent.columns) {
        line.wrong("the line has more than the ", extent.columns, " cells of the first");
      }
    }
    if (extent.rows == 0) extent.columns = found;
    if (found != extent.columns) {
      line.wrong("the line ends behind ", found, " cells, the first has ", extent.columns);
    }
    ++extent.rows;
  }
  return extent;
}

}  // namespace

data::Table read_csv(const ByteSource& source, const data::CsvOptions& options) {
  const std::string& label = source.label();
  const WholeFile file(source);
  Lines lines(label, file.text(), options.separator);
  if (!lines.more()) damaged(label, "has no line");
  const Extent extent = extent_of(lines);
  const bool header = options.header.value_or(extent.names);

  data::Table table;
  std::string cell;
  if (header) {
    table.columns.reserve(extent.columns);
    for (Line line = lines.next(); line.next(cell);) table.columns.push_back(cell);
  }
  table.values = detail::make_empty(label.c_str(),
                                    {static_cast<std::int64_t>(extent.rows - (header ? 1 : 0)),
                                     static_cast<std::int64_t>(extent.columns)},
                                    DType::float64, cpu_device);
  auto* value = table.values.data<double>();
  while (lines.more()) {
    for (Line line = lines.next(); line.next(cell);) *value++ = number_of(line, cell);
  }
  return table;
}

}  // namespace io

namespace data {

Table load_csv(const std::filesystem::path& path, const CsvOptions& options) {
  const char separator = options.separator;
  const bool letter =
      (separator >= 'a' && separator <= 'z') || (separator >= 'A' && separator <= 'Z');
  if (letter || std::string_view("0123456789+-.\"\n\r").find(separator) != std::string_view::npos ||
      separator == '\0') {
    throw ValueError(
        detail::message("load_csv: separator is ", io::in_quotes({&separator, 1}),
                        " (allowed: what is no part of a number, quote or line's end)"));
  }
  return io::read_csv(io::FileSource("load_csv", path), options);
}

}  // namespace data

}  // namespace extensor
