#include "data/csv_cells.h"

#include <algorithm>
#include <charconv>

#include "io/text.h"

namespace extensor::io {

namespace {

constexpr std::size_t longest_cell = 1 << 20;

}  // namespace

void check_separator(const char* operation, char separator) {
  const bool letter =
      (separator >= 'a' && separator <= 'z') || (separator >= 'A' && separator <= 'Z');
  if (letter || std::string_view("0123456789+-.\"\n\r").find(separator) != std::string_view::npos ||
      separator == '\0') {
    throw ValueError(
        detail::message(operation, ": separator is ", in_quotes({&separator, 1}),
                        " (allowed: what is no part of a number, quote or line's end)"));
  }
}

CsvCells::CsvCells(const std::string& label, std::string_view text, char separator, bool newlines)
    : label_(label), left_(text), separator_(separator), newlines_(newlines) {
  constexpr std::string_view mark = "\xef\xbb\xbf";  // UTF-8 byte order mark
  if (left_.starts_with(mark)) left_.remove_prefix(mark.size());
  while (!left_.empty() && (left_.back() == '\n' || left_.back() == '\r')) left_.remove_suffix(1);
}

void CsvCells::next_row() {
  if (left_.starts_with('\n') || left_.starts_with("\r\n")) {
    damaged(label_, "line ", line_, " is empty");
  }
  column_ = 0;
  ended_ = false;
}

void CsvCells::skip_blanks() {
  while (!left_.empty() && is_blank(left_.front())) left_.remove_prefix(1);
}

// The length up to the next separator or line end.
std::size_t CsvCells::plain_size() const {
  std::size_t size = 0;
  while (size < left_.size() && left_[size] != separator_ && left_[size] != '\n') ++size;
  return size;
}

// Reads a quoted cell, in which two quotes represent one.
void CsvCells::read_quoted() {
  quoted_.clear();
  for (;;) {
    left_.remove_prefix(1);
    const std::size_t quote = left_.find('"');
    const std::string_view part = left_.substr(0, quote);
    const auto lines = std::ranges::count(part, '\n');
    if (quote == std::string_view::npos || (lines > 0 && !newlines_)) {
      wrong("a quote has no end", newlines_ ? "" : " on this line");
    }
    if (quoted_.size() + part.size() > longest_cell) {
      wrong("a cell has more than ", longest_cell, " bytes (allowed: at most ", longest_cell, ")");
    }
    line_ += static_cast<std::size_t>(lines);
    quoted_ += part;
    left_.remove_prefix(quote + 1);
    if (left_.empty() || left_.front() != '"') break;
    quoted_ += '"';
  }
  skip_blanks();
  if (left_.starts_with("\r\n")) left_.remove_prefix(1);
  if (!left_.empty() && left_.front() != separator_ && left_.front() != '\n') {
    wrong("has ", in_quotes(left_.substr(0, std::min<std::size_t>(20, plain_size()))),
          " behind a quoted cell");
  }
}

bool CsvCells::next(std::string_view& cell) {
  if (ended_) return false;
  ++column_;
  cell_line_ = line_;
  skip_blanks();
  if (!left_.empty() && left_.front() == '"') {
    read_quoted();
    cell = quoted_;
  } else {
    const std::size_t size = plain_size();
    cell = left_.substr(0, size);
    left_.remove_prefix(size);
    if (!left_.empty() && left_.front() == '\n' && cell.ends_with('\r')) cell.remove_suffix(1);
    while (!cell.empty() && is_blank(cell.back())) cell.remove_suffix(1);
    if (cell.find('"') != std::string_view::npos) wrong("has a quote inside ", in_quotes(cell));
    if (cell.size() > longest_cell) {
      wrong("a cell has ", cell.size(), " bytes (allowed: at most ", longest_cell, ")");
    }
  }
  ended_ = left_.empty() || left_.front() == '\n';
  if (ended_) ++line_;
  if (!left_.empty()) left_.remove_prefix(1);
  return true;
}

Parsed parse_number(std::string_view cell, double& value) {
  if (cell.size() > 1 && cell.front() == '+' && cell[1] != '-') cell.remove_prefix(1);
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (end != cell.data() + cell.size() || error == std::errc::invalid_argument) return Parsed::none;
  return error == std::errc() ? Parsed::number : Parsed::out_of_range;
}

}  // namespace extensor::io
