#include "data/words.h"

#include "data/character_class.h"
#include "io/text.h"

namespace extensor::data {

namespace {

struct Character {
  CharacterClass kind;
  std::size_t length;
};

Character first_character(std::string_view text) {
  const std::size_t length = io::utf8_length(text);
  if (length == 0) return {CharacterClass::other, 1};
  return {character_class(io::code_point(text.substr(0, length))), length};
}

}  // namespace

std::size_t first_word(std::string_view text) {
  if (text.front() == '\'') {
    for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
      if (text.starts_with(ending)) return ending.size();
    }
  }
  const std::size_t begin = text.front() == ' ' && text.size() > 1 ? 1 : 0;
  const CharacterClass kind = first_character(text.substr(begin)).kind;
  const bool blank = kind == CharacterClass::space;
  std::size_t end = blank ? 0 : begin, last = 0;
  while (end < text.size()) {
    const Character next = first_character(text.substr(end));
    if (next.kind != kind) break;
    last = end;
    end += next.length;
  }
  return blank && end < text.size() && last > 0 ? last : end;
}

}  // namespace extensor::data
