// Tokenizers, and datasets of text windows.
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

// Converts text to tokens and back: decode(encode(text)) == text.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::int64_t size() const = 0;  // tokens are 0 … size() − 1
  // Throws ValueError that names the first character without a token and its position.
  virtual Tokens encode(std::string_view text) const = 0;
  // Throws IndexError for a number that is not a token. A token may be part of a character.
  virtual std::string decode(const Tokens& tokens) const = 0;
  // Writes a JSON file that load_tokenizer reads. Throws IoError.
  void save(const std::filesystem::path& path) const;
  virtual std::string to_json() const = 0;

 protected:
  Tokenizer() = default;
  Tokenizer(const Tokenizer&) = default;
  Tokenizer& operator=(const Tokenizer&) = default;
};

// One token for each distinct character (code point) of a text, in ascending order.
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

// Byte-pair encoding: tokens are bytes and repeated merges of frequent adjacent pairs. Any bytes
// can be encoded.
//
// A text is first split into words with GPT-2's rule: runs of letters, of numbers or of other
// characters, each with the preceding space; English endings ('s, 'll, …); white space. Letters and
// numbers are Unicode's categories L and N. Merges never cross a word boundary.
class BytePairTokenizer final : public Tokenizer {
 public:
  // Learns merges from a text until there are `size` tokens or no pair occurs twice. Each step
  // merges the most frequent pair, on ties the lowest. The first 256 tokens are the bytes; a token
  // has at most 1024 bytes. Throws ValueError for a size below 256.
  static BytePairTokenizer train(std::string_view text, std::int64_t size);
  // Reads GPT-2's files: vocab.json (encoder.json) and merges.txt (vocab.bpe). Throws FormatError,
  // with the file and the line or token, if they are inconsistent. A token that no merge produces,
  // such as <|endoftext|>, is decoded but never encoded.
  static BytePairTokenizer load_gpt2(const std::filesystem::path& vocabulary,
                                     const std::filesystem::path& merges);
  explicit BytePairTokenizer(std::shared_ptr<const BytePairs> pairs);  // used by readers

  std::int64_t size() const override;
  Tokens encode(std::string_view text) const override;
  std::string decode(const Tokens& tokens) const override;
  std::string to_json() const override;

 private:
  std::shared_ptr<const BytePairs> pairs_;
};

// Reads a file that Tokenizer::save wrote. Throws FormatError with the file and the reason.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path);

// Reads a whole file. Throws FormatError, with the position, unless it is UTF-8.
std::string load_text(const std::filesystem::path& path);

// Windows of `block` tokens with the tokens that follow: example k has inputs k … k + block − 1 and
// targets k + 1 … k + block, both int64 [block]. Throws ValueError for a block below 1 or fewer
// than block + 1 tokens, ShapeError or DTypeError for other tensors.
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
