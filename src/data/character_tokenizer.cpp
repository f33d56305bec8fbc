#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "data/tokenizer_files.h"
#include "extensor/data/text.h"
#include "io/text.h"

namespace extensor::data {

using detail::message;

namespace {

// Calls function(code point, position) for each character in order.
template <class Function>
void each_character(const char* operation, std::string_view text, Function&& function) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = io::utf8_length(text.substr(at));
    if (length == 0) {
      throw ValueError(message(operation, ": the text has ", io::in_quotes(text.substr(at, 1)),
                               " at byte ", at, ", which is not UTF-8"));
    }
    function(io::code_point(text.substr(at, length)), at);
    at += length;
  }
}

std::string utf8(char32_t code_point) {
  std::string text;
  io::append_utf8(text, code_point);
  return text;
}

}  // namespace

CharacterTokenizer::CharacterTokenizer(std::string_view text) {
  constexpr std::size_t code_point_count = 0x110000;
  std::vector<bool> seen(code_point_count);
  each_character("CharacterTokenizer", text, [&](char32_t character, std::size_t) {
    if (!seen[character]) characters_.push_back(character);
    seen[character] = true;
  });
  std::ranges::sort(characters_);
}

std::int64_t CharacterTokenizer::size() const {
  return static_cast<std::int64_t>(characters_.size());
}

Tokens CharacterTokenizer::encode(std::string_view text) const {
  Tokens tokens;
  tokens.reserve(text.size());
  each_character("CharacterTokenizer::encode", text, [&](char32_t character, std::size_t at) {
    const auto found = std::ranges::lower_bound(characters_, character);
    if (found == characters_.end() || *found != character) {
      throw ValueError(message("CharacterTokenizer::encode: no token for the character ",
                               io::in_quotes(utf8(character)), " at byte ", at, " of the text"));
    }
    tokens.push_back(found - characters_.begin());
  });
  return tokens;
}

std::string CharacterTokenizer::decode(const Tokens& tokens) const {
  check_tokens("CharacterTokenizer::decode", tokens, size());
  std::string text;
  text.reserve(tokens.size());
  for (const std::int64_t token : tokens) {
    io::append_utf8(text, characters_[static_cast<std::size_t>(token)]);
  }
  return text;
}

std::string CharacterTokenizer::to_json() const {
  nlohmann::ordered_json file = {
      {"format", tokenizer_format}, {"version", 1}, {"kind", character_kind}};
  auto& list = file["tokens"] = nlohmann::ordered_json::array();
  for (const char32_t character : characters_) list.push_back(utf8(character));
  return file.dump();
}

}  // namespace extensor::data
