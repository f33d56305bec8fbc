// UTF-8; and names from files, and files' names, in messages: they may hold anything.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "extensor/export.h"

// The tool uses it too.
EXTENSOR_BEGIN_API

namespace extensor::io {

// The bytes of the character at the beginning of a text that is not empty, 0 where there is none.
std::size_t utf8_length(std::string_view text);
// The bytes from the beginning that are UTF-8: where the first is that is not.
std::size_t utf8_prefix(std::string_view text);
inline bool is_utf8(std::string_view text) { return utf8_prefix(text) == text.size(); }

// The code point of one whole character, and back.
char32_t code_point(std::string_view character);
void append_utf8(std::string& text, char32_t code_point);

// Text from outside, made safe to print: control characters and marks that reorder text become
// \x1b or \u009b, and bytes that are not UTF-8 become \xff. The result is one line of UTF-8, unless
// `kept` names control characters that stay, as "\n\t".
std::string printable(std::string_view text, std::string_view kept = {});

// The same in quotes, for messages; only the first 300 bytes of a longer text.
std::string in_quotes(std::string_view text);

// What is wrong with the name of a tensor, or nothing: NUL, "..", bytes that are not UTF-8.
std::string_view fault_of_name(std::string_view name);

}  // namespace extensor::io

EXTENSOR_END_API
