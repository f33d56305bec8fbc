// UTF-8, and safe display of untrusted names (of files and from files) in messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "extensor/export.h"

// Exported because the command-line tool uses it.
EXTENSOR_BEGIN_API

namespace extensor::io {

// The length in bytes of the first character of a non-empty text, or 0 if it is not valid UTF-8.
std::size_t utf8_length(std::string_view text);
// The length of the longest prefix that is valid UTF-8.
std::size_t utf8_prefix(std::string_view text);
inline bool is_utf8(std::string_view text) { return utf8_prefix(text) == text.size(); }

// Converts one complete character to its code point, and back.
char32_t code_point(std::string_view character);
void append_utf8(std::string& text, char32_t code_point);

// Makes untrusted text safe to print: control characters and marks that reorder text become \x1b or
// \u009b, and bytes that are not UTF-8 become \xff. The result is one line of UTF-8, except that
// the control characters in `kept` (for example "
// \t") stay.
std::string printable(std::string_view text, std::string_view kept = {});

// printable() in quotes, for messages; cut after 300 bytes.
std::string in_quotes(std::string_view text);

// "; did you mean 'epochs'?" if a candidate is close to the word, otherwise empty.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates);

// Describes the defect of a tensor's name (NUL, "..", bytes that are not UTF-8); empty if valid.
std::string_view fault_of_name(std::string_view name);

}  // namespace extensor::io

EXTENSOR_END_API
