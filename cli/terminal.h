// Progress while people wait, tables, numbers, and the word that a mistyped one was meant to be.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace extensor::cli {

// A bar on the terminal's last line; where stderr is no terminal, a plain line every ten seconds.
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

// Rows of cells in columns as wide as they need to be; the first row is the heading. Control
// characters are escaped.
std::string table(std::vector<std::vector<std::string>> rows);

// The same, printed row by row as the rows become known.
class TableWriter {
 public:
  // Columns are at least as wide as the heading and the widths, which may be fewer.
  TableWriter(const std::vector<std::string>& heading, const std::vector<std::size_t>& widths);
  // On standard output when this returns. IoError.
  void add(const std::vector<std::string>& row);

 private:
  std::vector<std::size_t> widths_;
};

// "; did you mean 'epochs'?" where one of the candidates is close to the word, else nothing.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates);

// "1 tensor", "2,000 tensors".
std::string counted(std::int64_t count, const std::string& what);

// 3 significant digits; so many behind the point; "99.31 %" of 0.9931; 61,706.
std::string short_number(double x);
std::string decimals(double x, int digits);
std::string percent(double part);
std::string with_commas(std::int64_t number);

// The names of all ops in the database that `words` ask for; all without words.
// CLI::ValidationError with the nearest name for one that does not exist.
std::vector<std::string> chosen(const std::vector<std::string>& words,
                                const std::vector<std::string>& names, const std::string& kind);

}  // namespace extensor::cli
