// Classification of code points by Unicode.
#pragma once

#include <cstdint>

namespace extensor::data {

enum class CharacterClass : std::uint8_t { letter, number, space, other };

// Letters and numbers by general category (L and N), spaces by White_Space.
CharacterClass character_class(char32_t code_point);

}  // namespace extensor::data
