// Names from files, and files' names, in messages: they may hold anything.
#pragma once

#include <string>
#include <string_view>

namespace extensor::io {

bool is_utf8(std::string_view text);

// In quotes, on one line, in UTF-8: other bytes as \x1b, and only the beginning of a long one.
std::string in_quotes(std::string_view text);

// What is wrong with the name of a tensor, or nothing: NUL, "..", bytes that are not UTF-8.
std::string_view fault_of_name(std::string_view name);

}  // namespace extensor::io
