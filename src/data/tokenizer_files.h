// Tokenizer files, and helpers that tokenizers share.
//
//   {"format": "extensor.tokenizer", "version": 1, "kind": "character", "tokens": ["a", "b"]}
//   {…, "kind": "byte_pair", "tokens": ["Ā", …], "merges": [[97, 98], …]}
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "extensor/data/text.h"
#include "io/byte_source.h"

namespace extensor::data {

inline constexpr std::string_view tokenizer_format = "extensor.tokenizer";
inline constexpr std::string_view character_kind = "character";
inline constexpr std::string_view byte_pair_kind = "byte_pair";

// Reads all of a source. Throws OutOfMemoryError.
std::string whole_text(const io::ByteSource& source);
// Reads a tokenizer's file. Throws FormatError for an implausibly large one.
std::string tokenizer_text(const io::ByteSource& source);

std::unique_ptr<Tokenizer> read_tokenizer(const io::ByteSource& source);
BytePairTokenizer read_gpt2(const io::ByteSource& vocabulary, const io::ByteSource& merges);

// Throws IndexError that names the first token outside 0 … size − 1.
void check_tokens(const char* operation, const Tokens& tokens, std::int64_t size);

}  // namespace extensor::data
