#include "cli/terminal.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>

#include "cli/output.h"
#include "io/text.h"

namespace extensor::cli {

namespace {

std::int64_t milliseconds_now() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The width in columns: the number of bytes that do not continue a UTF-8 character.
std::size_t width(const std::string& cell) {
  return static_cast<std::size_t>(std::count_if(cell.begin(), cell.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

}  // namespace

Progress::Progress(std::int64_t total)
    : total_(total), last_shown_(milliseconds_now()), terminal_(isatty(STDERR_FILENO) != 0) {
  if (terminal_) last_shown_ = -1000;
}

Progress::~Progress() { clear(); }

void Progress::clear() {
  if (shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

void Progress::advance(const std::string& what) {
  ++done_;
  const std::int64_t now = milliseconds_now();
  if (now - last_shown_ < (terminal_ ? 50 : 10'000)) return;
  last_shown_ = now;
  const auto done = static_cast<long long>(done_), total = static_cast<long long>(total_);
  if (!terminal_) {
    std::fprintf(stderr, "%.1f %%  %s\n",
                 100.0 * static_cast<double>(done) / static_cast<double>(total), what.c_str());
    return;
  }
  constexpr std::int64_t length = 30;
  const auto filled = static_cast<std::size_t>(length * done_ / std::max<std::int64_t>(1, total_));
  std::string bar;
  for (std::size_t i = 0; i < static_cast<std::size_t>(length); ++i) bar += i < filled ? "█" : "░";
  std::fprintf(stderr, "\r\033[K%s %lld / %lld  %s", bar.c_str(), done, total, what.c_str());
  std::fflush(stderr);
  shown_ = true;
}

namespace {

void widen(std::vector<std::size_t>& widths, const std::vector<std::string>& row) {
  widths.resize(std::max(widths.size(), row.size()));
  for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width(row[c]));
}

void append_row(std::string& text, const std::vector<std::string>& row,
                const std::vector<std::size_t>& widths) {
  for (std::size_t c = 0; c < row.size(); ++c) {
    text += row[c];
    const std::size_t used = width(row[c]), wanted = c < widths.size() ? widths[c] : 0;
    if (c + 1 < row.size()) text.append(std::max(wanted, used) - used + 2, ' ');
  }
  text.erase(text.find_last_not_of(' ') + 1);
  text += '\n';
}

}  // namespace

std::string table(std::vector<std::vector<std::string>> rows) {
  std::vector<std::size_t> widths;
  for (auto& row : rows) {
    for (std::string& cell : row) cell = io::printable(cell);
    widen(widths, row);
  }
  std::string text;
  for (const auto& row : rows) append_row(text, row, widths);
  return text;
}

TableWriter::TableWriter(const std::vector<std::string>& heading,
                         const std::vector<std::size_t>& widths)
    : widths_(widths) {
  widen(widths_, heading);
  add(heading);
}

void TableWriter::add(const std::vector<std::string>& row) {
  std::string text;
  append_row(text, row, widths_);
  std::cout << text;
  flush_output();
}

std::string counted(std::int64_t count, const std::string& what) {
  return with_commas(count) + " " + what + (count == 1 ? "" : "s");
}

std::string decimals(double x, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, x);
  return text;
}

std::string percent(double part) { return decimals(100 * part, 2) + " %"; }

std::string with_commas(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string short_number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", x);
  return text;
}

std::vector<std::string> chosen(const std::vector<std::string>& words,
                                const std::vector<std::string>& names, const std::string& kind) {
  if (words.empty()) return names;
  for (const std::string& word : words) {
    if (std::ranges::find(names, word) != names.end()) continue;
    throw CLI::ValidationError("there is no " + kind + " " + io::in_quotes(word) +
                               io::did_you_mean(word, names));
  }
  return words;
}

}  // namespace extensor::cli
