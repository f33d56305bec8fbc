// Properties of every tokenizer.
#pragma once

#include <numeric>
#include <string_view>

#include "data/tokenizer_files.h"
#include "fuzz/reader.h"

namespace extensor::fuzz {

inline io::MemorySource source(const char* label, std::string_view text) {
  return {label, std::as_bytes(std::span(text))};
}

// decode is the inverse of encode, and every token decodes to something.
inline void check_tokenizer(const data::Tokenizer& tokenizer, std::string_view text) {
  try {
    if (tokenizer.decode(tokenizer.encode(text)) != text) std::abort();
  } catch (const ValueError&) {
    if (dynamic_cast<const data::BytePairTokenizer*>(&tokenizer) != nullptr) std::abort();
  }
  data::Tokens all(static_cast<std::size_t>(tokenizer.size()));
  std::iota(all.begin(), all.end(), 0);
  if (tokenizer.decode(all).size() < all.size()) std::abort();
}

// Saving and loading gives the same tokenizer.
inline void check_file(const data::Tokenizer& tokenizer) {
  const std::string file = tokenizer.to_json();
  if (data::read_tokenizer(source("again", file))->to_json() != file) std::abort();
}

}  // namespace extensor::fuzz
