// GPT-2's division of a text into words. Merges never cross a word boundary.
#pragma once

#include <cstddef>
#include <string_view>

namespace extensor::data {

// The length of the first word of a non-empty text. The first of GPT-2's rules that matches
// applies: 's 't 're 've 'm 'll 'd; a run of letters, of numbers or of other characters, with one
// preceding space; white space, without its last character if text follows. Bytes that are not
// UTF-8 count as other characters.
std::size_t first_word(std::string_view text);

// Calls function(word) for each word in order.
template <class Function>
void each_word(std::string_view text, Function&& function) {
  while (!text.empty()) {
    const std::size_t length = first_word(text);
    function(text.substr(0, length));
    text.remove_prefix(length);
  }
}

}  // namespace extensor::data
