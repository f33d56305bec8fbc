// GPT-2's mapping of bytes to printable characters other than space, so that arbitrary bytes can
// appear in JSON and in lists separated by spaces.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace extensor::data {

std::string symbols_of(std::string_view bytes);

// Returns nullopt if a character represents no byte. The symbols are UTF-8.
std::optional<std::string> bytes_of_symbols(std::string_view symbols);

}  // namespace extensor::data
