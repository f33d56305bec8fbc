// GPT-2's characters for bytes: each has one that can be seen and is no space, so that any bytes
// can stand in JSON and between spaces.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace extensor::data {

std::string symbols_of(std::string_view bytes);

// Nothing where a character stands for no byte. The symbols are UTF-8.
std::optional<std::string> bytes_of_symbols(std::string_view symbols);

}  // namespace extensor::data
