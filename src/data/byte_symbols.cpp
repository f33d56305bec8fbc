#include "data/byte_symbols.h"

#include <array>

#include "io/text.h"

namespace extensor::data {

namespace {

// Bytes that are printable in Latin-1 represent themselves; the others map to U+0100 … U+0143 in
// order.
constexpr bool is_shown(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

constexpr std::array<char32_t, 256> code_points = [] {
  std::array<char32_t, 256> table{};
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) table[byte] = is_shown(byte) ? byte : next++;
  return table;
}();

constexpr std::size_t symbol_count = 0x144;

constexpr std::array<int, symbol_count> bytes = [] {
  std::array<int, symbol_count> table{};
  table.fill(-1);
  for (int byte = 0; byte < 256; ++byte) table[code_points[static_cast<std::size_t>(byte)]] = byte;
  return table;
}();

}  // namespace

std::string symbols_of(std::string_view text) {
  std::string symbols;
  symbols.reserve(2 * text.size());
  for (const char byte : text) {
    io::append_utf8(symbols, code_points[static_cast<unsigned char>(byte)]);
  }
  return symbols;
}

std::optional<std::string> bytes_of_symbols(std::string_view symbols) {
  std::string text;
  text.reserve(symbols.size());
  while (!symbols.empty()) {
    const std::size_t length = io::utf8_length(symbols);
    if (length == 0) return {};
    const char32_t symbol = io::code_point(symbols.substr(0, length));
    if (symbol >= symbol_count || bytes[symbol] < 0) return {};
    text += static_cast<char>(bytes[symbol]);
    symbols.remove_prefix(length);
  }
  return text;
}

}  // namespace extensor::data
