// A text in words, as GPT-2 cuts it before pairs are joined: none reaches from one into the next.
#pragma once

#include <cstddef>
#include <string_view>

namespace extensor::data {

// The bytes of the first word of a text that is not empty. GPT-2's rule, the first that fits:
// 's 't 're 've 'm 'll 'd; letters, numbers or neither, with the space before them; white space,
// but its last character where something follows. Bytes that are not UTF-8 are neither.
std::size_t first_word(std::string_view text);

// Calls function(word) for one word after the other.
template <class Function>
void each_word(std::string_view text, Function&& function) {
  while (!text.empty()) {
    const std::size_t length = first_word(text);
    function(text.substr(0, length));
    text.remove_prefix(length);
  }
}

}  // namespace extensor::data
