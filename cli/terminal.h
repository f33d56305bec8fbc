// Terminal output: progress, tables and numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace extensor::cli {

// A bar on the terminal's last line. If stderr is not a terminal, a plain line every ten seconds.
class Progress {
 public:
  explicit Progress(std::int64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance(const std::string& what);
  void clear();

 private:
  std::int64_t total_, done_ = 0;
  std::int64_t last_shown_;  // in milliseconds
  bool shown_ = false;
  const bool terminal_;
};

// Formats rows of cells in columns; the first row is the heading. Control characters are escaped.
std::string table(std::vector<std::vector<std::string>> rows);

// Prints a table row by row, as the rows become known.
class TableWriter {
 public:
  // Columns are at least as wide as the heading and `widths`, which may have fewer entries.
  TableWriter(const std::vector<std::string>& heading, const std::vector<std::size_t>& widths);
  // The row is on standard output when this returns. Throws IoError.
  void add(const std::vector<std::string>& row);

 private:
  std::vector<std::size_t> widths_;
};

// "1 tensor", "2,000 tensors".
std::string counted(std::int64_t count, const std::string& what);

// In order: 3 significant digits; `digits` decimals; "99.31 %" for 0.9931; 61,706.
std::string short_number(double x);
std::string decimals(double x, int digits);
std::string percent(double part);
std::string with_commas(std::int64_t number);

// The names that `words` select; all if there are no words. Throws CLI::ValidationError with the
// nearest name for an unknown one.
std::vector<std::string> chosen(const std::vector<std::string>& words,
                                const std::vector<std::string>& names, const std::string& kind);

}  // namespace extensor::cli
