#include "io/text.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace extensor::io {

std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Refuse overlong encodings, UTF-16 surrogates and code points above U+10FFFF.
  if (first == 0xe0 && byte(1) < 0xa0) return 0;
  if (first == 0xed && byte(1) > 0x9f) return 0;
  if (first == 0xf0 && byte(1) < 0x90) return 0;
  if (first == 0xf4 && byte(1) > 0x8f) return 0;
  return length;
}

std::size_t utf8_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = utf8_length(text.substr(at));
    if (length == 0) break;
    at += length;
  }
  return at;
}

char32_t code_point(std::string_view character) {
  const auto first = static_cast<unsigned char>(character.front());
  if (character.size() == 1) return first;
  char32_t value = first & (0xffU >> (character.size() + 1));
  for (const char next : character.substr(1)) {
    value = value << 6 | (static_cast<unsigned char>(next) & 0x3fU);
  }
  return value;
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (code_point < 0x80) return put(code_point);
  if (code_point < 0x800) {
    put(0xc0 | code_point >> 6);
  } else if (code_point < 0x10000) {
    put(0xe0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3f));
  } else {
    put(0xf0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3f));
    put(0x80 | (code_point >> 6 & 0x3f));
  }
  put(0x80 | (code_point & 0x3f));
}

namespace {

// Control characters, including C1 (U+009B starts a terminal sequence, like ESC [), and the marks
// that reorder surrounding text.
bool is_control(char32_t point) {
  return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x061c || point == 0x200e ||
         point == 0x200f || (point >= 0x2028 && point <= 0x202e) ||
         (point >= 0x2066 && point <= 0x2069);
}

void append_hexadecimal(std::string& text, char32_t value, int digits) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
    text += "0123456789abcdef"[value >> shift & 15];
  }
}

}  // namespace

std::string printable(std::string_view text, std::string_view kept) {
  std::string result;
  std::size_t done = 0;  // the text before this index is already in the result
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if ((byte >= 0x20 && byte < 0x7f) || kept.find(text[at]) != std::string_view::npos) {
      ++at;
      continue;
    }
    const std::size_t length = utf8_length(text.substr(at));
    const char32_t point = length == 0 ? byte : code_point(text.substr(at, length));
    const std::size_t next = at + std::max<std::size_t>(1, length);
    if (length == 0 || is_control(point)) {
      result += text.substr(done, at - done);
      const bool short_form = length == 0 || point < 0x20;
      result += short_form ? "\\x" : "\\u";
      append_hexadecimal(result, point, short_form ? 2 : 4);
      done = next;
    }
    at = next;
  }
  return result += text.substr(done);
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t most = 300;
  const bool cut = text.size() > most;
  return "'" + printable(text.substr(0, most)) + (cut ? "…'" : "'");
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

namespace {

std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> previous(b.size() + 1), current(b.size() + 1);
  std::iota(previous.begin(), previous.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    current[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      current[j + 1] =
          std::min({previous[j] + (a[i] == b[j] ? 0u : 1u), previous[j + 1] + 1, current[j] + 1});
    }
    std::swap(previous, current);
  }
  return previous[b.size()];
}

}  // namespace

std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string* best = nullptr;
  std::size_t best_distance = (word.size() + 2) / 3 + 1;  // a third of the letters may differ
  for (const std::string& candidate : candidates) {
    const bool begins = word.size() >= 3 && candidate.starts_with(word);
    const std::size_t distance = begins ? 1 : edit_distance(word, candidate);
    if (distance < best_distance) {
      best = &candidate;
      best_distance = distance;
    }
  }
  return best == nullptr ? "" : "; did you mean " + in_quotes(*best) + "?";
}

}  // namespace extensor::io
