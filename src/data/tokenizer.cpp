// Tokenizers stored in JSON files.
#include <algorithm>
#include <new>

#include "core/check.h"
#include "core/machine.h"
#include "data/byte_pairs.h"
#include "data/byte_symbols.h"
#include "data/tokenizer_files.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "io/text.h"

namespace extensor::data {

using detail::message;
using io::damaged;
using io::in_quotes;

namespace {

constexpr std::uint64_t file_version = 1;
constexpr std::uint64_t largest_file = 256 << 20;

struct TokenizerFile {
  std::string kind;
  TokenTable tokens;  // as written in the file
  std::vector<TokenPair> merges;
};

class TokenizerHandler final : public io::JsonHandler {
 public:
  TokenizerHandler(const std::string& label, TokenizerFile& file)
      : JsonHandler(label, "it"), file_(file) {}

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ == State::pair) {
      if (number_count_ == 2) damaged(label_, place(), " has more than 2 numbers");
      if (value > UINT32_MAX) damaged(label_, place(), " has the number ", value, ", no token");
      TokenPair& pair = file_.merges.back();
      (number_count_++ == 0 ? pair.left : pair.right) = static_cast<std::uint32_t>(value);
      return true;
    }
    if (state_ != State::keys || key_ != "version") unexpected(message("the number ", value));
    if (value != file_version) {
      damaged(label_, "version is ", value, " (allowed: ", file_version, ")");
    }
    return true;
  }

  bool string(string_t& value) override {
    if (state_ == State::tokens) {
      if (value.empty() || value.size() > 2 * longest_token) {
        damaged(label_, "token ", file_.tokens.size(), " has ", value.size(),
                " bytes (allowed: 1 to ", 2 * longest_token, ")");
      }
      file_.tokens.push_back(value);
    } else if (state_ == State::keys && key_ == "format") {
      if (value != tokenizer_format) {
        damaged(label_, "format is ", in_quotes(value), " (allowed: ", in_quotes(tokenizer_format),
                ")");
      }
    } else if (state_ == State::keys && key_ == "kind") {
      if (value != character_kind && value != byte_pair_kind) {
        damaged(label_, "kind is ", in_quotes(value), " (allowed: ", in_quotes(character_kind),
                ", ", in_quotes(byte_pair_kind), ")");
      }
      file_.kind = value;
    } else {
      unexpected(message("the string ", in_quotes(value)));
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (state_ != State::before) unexpected("an object");
    state_ = State::keys;
    return true;
  }

  bool key(string_t& value) override {
    if (value != "format" && value != "version" && value != "kind" && value != "tokens" &&
        value != "merges") {
      damaged(label_, "unknown key ", in_quotes(value),
              " (allowed: format, version, kind, tokens, merges)");
    }
    if (has(value)) damaged(label_, in_quotes(value), " is there twice (allowed: every key once)");
    keys_.push_back(value);
    key_ = value;
    return true;
  }

  bool end_object() override {
    for (const char* needed : {"format", "version", "kind", "tokens"}) {
      if (!has(needed)) damaged(label_, needed, " is missing");
    }
    if (has("merges") != (file_.kind == byte_pair_kind)) {
      damaged(label_, "merges ", has("merges") ? "are there" : "are missing", ", and the kind is ",
              in_quotes(file_.kind), " (allowed: merges of ", in_quotes(byte_pair_kind), ")");
    }
    state_ = State::after;
    return true;
  }

  bool start_array(std::size_t) override {
    if (state_ == State::keys && key_ == "tokens") {
      state_ = State::tokens;
    } else if (state_ == State::keys && key_ == "merges") {
      state_ = State::merges;
    } else if (state_ == State::merges) {
      state_ = State::pair;
      file_.merges.push_back({});
      number_count_ = 0;
    } else {
      unexpected("an array");
    }
    return true;
  }

  bool end_array() override {
    if (state_ == State::pair && number_count_ != 2) {
      damaged(label_, place(), " has ", number_count_, " numbers (allowed: 2)");
    }
    state_ = state_ == State::pair ? State::merges : State::keys;
    return true;
  }

 private:
  enum class State { before, keys, tokens, merges, pair, after };

  bool has(std::string_view name) const { return std::ranges::find(keys_, name) != keys_.end(); }

  std::string place() const { return message("pair ", file_.merges.size(), " of merges"); }

  std::string fault(const std::string& found) const override {
    switch (state_) {
      case State::before:
      case State::after:
        return message("it is ", found, " (allowed: an object)");
      case State::keys:
        return message(key_, " is ", found, " (allowed: ",
                       key_ == "version"                    ? "a number"
                       : key_ == "format" || key_ == "kind" ? "a string"
                                                            : "an array",
                       ")");
      case State::tokens:
        return message("token ", file_.tokens.size(), " is ", found, " (allowed: a string)");
      case State::merges:
        return message("pair ", file_.merges.size() + 1, " of merges is ", found,
                       " (allowed: an array of 2 tokens)");
      case State::pair:
        return message(place(), " has ", found, " (allowed: 2 tokens)");
    }
    return found;
  }

  TokenizerFile& file_;
  State state_ = State::before;
  std::vector<std::string> keys_;
  std::string key_;
  int number_count_ = 0;
};

std::unique_ptr<Tokenizer> character_tokenizer(const std::string& label, const TokenTable& tokens) {
  std::string text;
  char32_t last = 0;
  for (std::size_t k = 0; k < tokens.size(); ++k) {
    if (io::utf8_length(tokens[k]) != tokens[k].size()) {
      damaged(label, "token ", k, " is ", in_quotes(tokens[k]), " (allowed: one character)");
    }
    const char32_t character = io::code_point(tokens[k]);
    if (k > 0 && character <= last) {
      damaged(label, "token ", k, ", ", in_quotes(tokens[k]), ", is not above the one before it",
              " (allowed: characters that ascend)");
    }
    last = character;
    text += tokens[k];
  }
  return std::make_unique<CharacterTokenizer>(text);
}

std::unique_ptr<Tokenizer> byte_pair_tokenizer(const std::string& label,
                                               const TokenizerFile& file) {
  TokenTable tokens;
  for (std::size_t k = 0; k < file.tokens.size(); ++k) {
    const std::optional<std::string> bytes = bytes_of_symbols(file.tokens[k]);
    if (!bytes) {
      damaged(label, "token ", k, " is ", in_quotes(file.tokens[k]),
              ", with a character that stands for no byte");
    }
    tokens.push_back(*bytes);
  }
  const auto pairs = std::make_shared<BytePairs>(label, std::move(tokens));
  for (std::size_t k = 0; k < file.merges.size(); ++k) {
    if (const std::string fault = pairs->join(file.merges[k]); !fault.empty()) {
      damaged(label, "pair ", k + 1, " of merges: ", fault);
    }
  }
  return std::make_unique<BytePairTokenizer>(pairs);
}

}  // namespace

std::string whole_text(const io::ByteSource& source) {
  std::string text;
  try {
    if (source.size() > detail::machine_bytes()) throw std::bad_alloc();
    text.resize(static_cast<std::size_t>(source.size()));
  } catch (const std::bad_alloc&) {
    throw OutOfMemoryError(message(source.label(), ": no room for its ", source.size(), " bytes"));
  }
  source.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

std::string tokenizer_text(const io::ByteSource& source) {
  if (source.size() > largest_file) {
    damaged(source.label(), "has ", source.size(), " bytes (allowed: at most ", largest_file, ")");
  }
  return whole_text(source);
}

std::unique_ptr<Tokenizer> read_tokenizer(const io::ByteSource& source) {
  const std::string text = tokenizer_text(source);
  TokenizerFile file;
  // The shortest pair is "[0,1],", so the list never grows beyond this.
  constexpr std::size_t shortest_pair = 6;
  TokenizerHandler handler(source.label(), file);
  file.merges.reserve(text.size() / shortest_pair + 1);
  io::parse_json(text, handler);
  return file.kind == byte_pair_kind ? byte_pair_tokenizer(source.label(), file)
                                     : character_tokenizer(source.label(), file.tokens);
}

void check_tokens(const char* operation, const Tokens& tokens, std::int64_t size) {
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    if (tokens[at] >= 0 && tokens[at] < size) continue;
    throw IndexError(message(operation, ": ", tokens[at], " at position ", at,
                             " is no token (allowed: from 0, below ", size, ")"));
  }
}

void Tokenizer::save(const std::filesystem::path& path) const {
  const std::string text = to_json();
  io::AtomicFile file("Tokenizer::save", path);
  file.write(text);
  file.write("\n");
  file.commit();
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path) {
  return read_tokenizer(io::FileSource("load_tokenizer", path));
}

}  // namespace extensor::data
