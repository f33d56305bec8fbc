// GPT-2's tokenizer format: vocab.json maps tokens to numbers, and merges.txt has a line for each
// pair.
#include <algorithm>

#include "core/check.h"
#include "data/byte_pairs.h"
#include "data/byte_symbols.h"
#include "data/tokenizer_files.h"
#include "io/json.h"
#include "io/text.h"

namespace extensor::data {

using detail::message;
using io::damaged;
using io::in_quotes;

namespace {

struct Vocabulary {
  TokenTable tokens;  // as written in the file
  std::vector<std::uint32_t> numbers;
};

class VocabularyHandler final : public io::JsonHandler {
 public:
  VocabularyHandler(const std::string& label, Vocabulary& vocabulary)
      : JsonHandler(label, "it"), vocabulary_(vocabulary) {}

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ != State::entries || value > UINT32_MAX) unexpected(message("the number ", value));
    vocabulary_.numbers.push_back(static_cast<std::uint32_t>(value));
    return true;
  }
  bool start_object(std::size_t) override {
    if (state_ != State::before) unexpected("an object");
    state_ = State::entries;
    return true;
  }
  bool key(string_t& value) override {
    key_ = value;
    if (value.empty() || value.size() > 2 * longest_token) {
      damaged(label_, "the token ", in_quotes(value), " has ", value.size(),
              " bytes (allowed: 1 to ", 2 * longest_token, ")");
    }
    vocabulary_.tokens.push_back(value);
    return true;
  }
  bool end_object() override {
    state_ = State::after;
    return true;
  }
  bool end_array() override { return true; }

 private:
  enum class State { before, entries, after };

  std::string fault(const std::string& found) const override {
    if (state_ != State::entries) return message("it is ", found, " (allowed: an object)");
    return message("the token ", in_quotes(key_), " has ", found,
                   " (allowed: a number from 0, below the number of tokens)");
  }

  Vocabulary& vocabulary_;
  State state_ = State::before;
  std::string key_;
};

// The tokens in order of their numbers.
TokenTable numbered(const std::string& label, const Vocabulary& vocabulary) {
  constexpr std::uint32_t nobody = UINT32_MAX;
  const std::size_t count = vocabulary.tokens.size();
  const auto name = [&](std::size_t k) { return in_quotes(vocabulary.tokens[k]); };
  std::vector<std::uint32_t> owners(count, nobody);
  for (std::size_t k = 0; k < count; ++k) {
    const std::uint32_t number = vocabulary.numbers[k];
    if (number >= count) {
      damaged(label, "the token ", name(k), " has the number ", number, " of ", count,
              " tokens (allowed: from 0, each once, without a gap)");
    }
    if (owners[number] != nobody) {
      damaged(label, "the tokens ", name(owners[number]), " and ", name(k),
              " both have the number ", number, " (allowed: each once)");
    }
    owners[number] = static_cast<std::uint32_t>(k);
  }
  TokenTable tokens;
  for (const std::uint32_t owner : owners) {
    const std::optional<std::string> bytes = bytes_of_symbols(vocabulary.tokens[owner]);
    if (!bytes) {
      damaged(label, "the token ", name(owner), " has a character that stands for no byte");
    }
    tokens.push_back(*bytes);
  }
  return tokens;
}

// Parses one line of merges.txt: two tokens separated by a space.
TokenPair pair_of(const std::string& place, std::string_view line, const BytePairs& pairs) {
  const std::size_t space = line.find(' ');
  if (space == 0 || space == std::string_view::npos || space + 1 == line.size() ||
      line.find(' ', space + 1) != std::string_view::npos) {
    damaged(place, "is ", in_quotes(line), " (allowed: two tokens with a space between them)");
  }
  const auto token = [&](std::string_view symbols) {
    const std::optional<std::string> bytes = bytes_of_symbols(symbols);
    const std::optional<std::uint32_t> found = bytes ? pairs.find(*bytes) : std::nullopt;
    if (!found) damaged(place, in_quotes(symbols), " is not in the vocabulary");
    return *found;
  };
  const std::uint32_t left = token(line.substr(0, space));
  return {left, token(line.substr(space + 1))};
}

void read_merges(const io::ByteSource& source, BytePairs& pairs) {
  const std::string text = tokenizer_text(source);
  std::string_view rest = text;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const auto place = [&] { return message(source.label(), ": line ", number); };
    const std::size_t length = rest.find('\n');
    if (length == std::string_view::npos) {
      damaged(place(), "is not ended (allowed: every line ends with a newline)");
    }
    std::string_view line = rest.substr(0, length);
    rest.remove_prefix(length + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (number == 1 && line.starts_with("#version")) continue;
    const TokenPair pair = pair_of(place(), line, pairs);
    if (const std::string fault = pairs.join(pair); !fault.empty()) damaged(place(), fault);
  }
}

}  // namespace

BytePairTokenizer read_gpt2(const io::ByteSource& vocabulary, const io::ByteSource& merges) {
  Vocabulary found;
  VocabularyHandler handler(vocabulary.label(), found);
  io::parse_json(tokenizer_text(vocabulary), handler);
  const auto pairs =
      std::make_shared<BytePairs>(vocabulary.label(), numbered(vocabulary.label(), found));
  read_merges(merges, *pairs);
  return BytePairTokenizer(pairs);
}

BytePairTokenizer BytePairTokenizer::load_gpt2(const std::filesystem::path& vocabulary,
                                               const std::filesystem::path& merges) {
  return read_gpt2(io::FileSource("load_gpt2", vocabulary), io::FileSource("load_gpt2", merges));
}

}  // namespace extensor::data
