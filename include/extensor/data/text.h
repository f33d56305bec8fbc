// Text as numbers, and windows of it to learn from.
//
//   const std::string text = data::load_text("tinyshakespeare.txt");
//   const data::CharacterTokenizer tokenizer(text);
//   data::TextDataset windows(from_data(tokenizer.encode(text)), 64);
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "extensor/data/dataset.h"
#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor::data {

using Tokens = std::vector<std::int64_t>;

// Text to tokens and back: decode(encode(text)) is the text.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::int64_t size() const = 0;  // tokens are 0 … size() − 1
  // ValueError naming what there is no token for, and where.
  virtual Tokens encode(std::string_view text) const = 0;
  // IndexError for what is no token. A token may be part of a character.
  virtual std::string decode(const Tokens& tokens) const = 0;
  // One file that load_tokenizer reads, JSON. IoError.
  void save(const std::filesystem::path& path) const;
  virtual std::string to_json() const = 0;

 protected:
  Tokenizer() = default;
  Tokenizer(const Tokenizer&) = default;
  Tokenizer& operator=(const Tokenizer&) = default;
};

// A token for each character (code point) of a text, ascending.
class CharacterTokenizer final : public Tokenizer {
 public:
  explicit CharacterTokenizer(std::string_view text);  // ValueError unless it is UTF-8
  std::int64_t size() const override;
  Tokens encode(std::string_view text) const override;
  std::string decode(const Tokens& tokens) const override;
  std::string to_json() const override;

 private:
  std::vector<char32_t> characters_;  // ascending
};

class BytePairs;

// Bytes, and pairs that were often side by side, joined again and again. Any bytes have tokens.
//
// A text is first cut into words, as GPT-2 does it: letters, numbers, and what is neither, each
// with the space before it; English endings ('s, 'll, …); white space. Letters and numbers are
// Unicode's categories L and N. Pairs are joined only inside a word.
class BytePairTokenizer final : public Tokenizer {
 public:
  // Learns pairs of a text until there are `size` tokens or none is there twice: always the one
  // that is there most often, of equals the lowest. The first 256 tokens are the bytes; none has
  // more than 1024. ValueError below 256.
  static BytePairTokenizer train(std::string_view text, std::int64_t size);
  // GPT-2's files: vocab.json (encoder.json) and merges.txt (vocab.bpe). FormatError, naming the
  // file and the line or the token, where they do not fit together. A token that no pair becomes,
  // such as <|endoftext|>, is decoded but never encoded.
  static BytePairTokenizer load_gpt2(const std::filesystem::path& vocabulary,
                                     const std::filesystem::path& merges);
  explicit BytePairTokenizer(std::shared_ptr<const BytePairs> pairs);  // what readers made

  std::int64_t size() const override;
  Tokens encode(std::string_view text) const override;
  std::string decode(const Tokens& tokens) const override;
  std::string to_json() const override;

 private:
  std::shared_ptr<const BytePairs> pairs_;
};

// What Tokenizer::save wrote. FormatError, naming the file and what is wrong.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path);

// A whole file. FormatError unless it is UTF-8, naming the byte.
std::string load_text(const std::filesystem::path& path);

// Windows of `block` tokens, with the tokens that follow each: example k is tokens k … k + block −
// 1 and its targets k + 1 … k + block, both int64 [block]. ValueError for a block below 1 or fewer
// than block + 1 tokens, ShapeError, DTypeError.
class TextDataset final : public Dataset {
 public:
  TextDataset(const Tensor& tokens, std::int64_t block);  // int64 [count]
  std::int64_t size() const override;
  Batch batch(const Request& request) const override;

 private:
  Tensor tokens_;
  std::int64_t block_;
};

}  // namespace extensor::data

EXTENSOR_END_API
