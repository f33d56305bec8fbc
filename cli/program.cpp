#include "cli/program.h"

#include <algorithm>

#include "io/text.h"

namespace extensor::cli {

namespace {

std::string& typed_program() {
  static std::string typed = "extensor";
  return typed;
}

std::vector<std::string>& typed_arguments() {
  static std::vector<std::string> typed;
  return typed;
}

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_-./+=:,@%").find(c) != std::string_view::npos;
}

std::string in_single_quotes(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// Quotes with $'…' of bash and zsh, for bytes that a terminal does not show.
std::string in_escapes(std::string_view text) {
  std::string quoted = "$'";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\'' || c == '\\') {
      quoted += {'\\', c};
    } else if (byte < 0x20 || byte >= 0x7f) {
      constexpr char digits[] = "0123456789abcdef";
      quoted += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

}  // namespace

void set_program(int count, const char* const* words) {
  if (count > 0 && words[0] != nullptr && *words[0] != '\0') typed_program() = words[0];
  for (int k = 1; k < count; ++k) typed_arguments().emplace_back(words[k]);
}

const std::string& program() { return typed_program(); }
const std::vector<std::string>& program_arguments() { return typed_arguments(); }

std::string shell_word(std::string_view text) {
  if (!text.empty() && std::ranges::all_of(text, is_plain)) return std::string(text);
  return io::printable(text) == text ? in_single_quotes(text) : in_escapes(text);
}

std::string typed_command() {
  std::string line = shell_word(program());
  for (const std::string& word : typed_arguments()) line += " " + shell_word(word);
  return line;
}

std::string command_line(std::initializer_list<std::string> words) {
  std::string line = shell_word(program());
  for (const std::string& word : words) line += " " + shell_word(word);
  return line;
}

}  // namespace extensor::cli
