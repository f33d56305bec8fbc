// Validators of command-line values. CLI11's validators accept NaN and empty text.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <system_error>

namespace extensor::cli {

using Check = std::function<std::string(const std::string&)>;

enum class Parsed { number, no_number, out_of_range };

// Parses all of `text` as a number.
template <class Number>
Parsed parse_number(const std::string& text, Number& value) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec == std::errc::result_out_of_range) return Parsed::out_of_range;
  return result.ec == std::errc() && result.ptr == end ? Parsed::number : Parsed::no_number;
}

// Accepts a finite or whole number from `least` to `most`.
template <class Number>
Check number_between(Number least, Number most, const std::string& allowed) {
  return [=](const std::string& text) -> std::string {
    Number value{};
    if (parse_number(text, value) == Parsed::number && value >= least && value <= most) return "";
    return "is '" + text + "' (allowed: " + allowed + ")";
  };
}

inline Check not_empty() {
  return [](const std::string& text) {
    return text.empty() ? std::string("is '' (allowed: a path)") : std::string();
  };
}

}  // namespace extensor::cli
