#include "io/text.h"

#include <algorithm>
#include <cstddef>

namespace extensor::io {

namespace {

// The length of the character at the beginning of `text`, 0 where there is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Longer than it need be, half of a UTF-16 pair, or beyond U+10FFFF.
  if (first == 0xe0 && byte(1) < 0xa0) return 0;
  if (first == 0xed && byte(1) > 0x9f) return 0;
  if (first == 0xf0 && byte(1) < 0x90) return 0;
  if (first == 0xf4 && byte(1) > 0x8f) return 0;
  return length;
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t most = 300;
  const bool cut = text.size() > most;
  if (cut) text = text.substr(0, most);
  std::string result = "'";
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const auto first = static_cast<unsigned char>(text.front());
    if (length == 0 || first < 0x20 || first == 0x7f) {
      constexpr char digits[] = "0123456789abcdef";
      result += {'\\', 'x', digits[first >> 4], digits[first & 15]};
      text.remove_prefix(1);
    } else {
      result += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return result + (cut ? "…'" : "'");
}

std::string_view fault_of_name(std::string_view name) {
  if (name.find('\0') != std::string_view::npos) return "a NUL byte";
  if (!is_utf8(name)) return "bytes that are not UTF-8";
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find_first_of("/\\", begin), name.size());
    if (name.substr(begin, end - begin) == "..") return "the path component '..'";
    begin = end + 1;
  }
  return {};
}

}  // namespace extensor::io
