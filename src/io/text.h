// UTF-8; and names from files, and files' names, in messages: they may hold anything.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace extensor::io {

// The bytes of the character at the beginning of a text that is not empty, 0 where there is none.
std::size_t utf8_length(std::string_view text);
// The bytes from the beginning that are UTF-8: where the first is that is not.
std::size_t utf8_prefix(std::string_view text);
inline bool is_utf8(std::string_view text) { return utf8_prefix(text) == text.size(); }

// The code point of one whole character, and back.
char32_t code_point(std::string_view character);
void append_utf8(std::string& text, char32_t code_point);

// In quotes, on one line, in UTF-8: other bytes as \x1b, and only the beginning of a long one.
std::string in_quotes(std::string_view text);

// What is wrong with the name of a tensor, or nothing: NUL, "..", bytes that are not UTF-8.
std::string_view fault_of_name(std::string_view name);

}  // namespace extensor::io
