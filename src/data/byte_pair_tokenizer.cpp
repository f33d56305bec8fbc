#include <nlohmann/json.hpp>
#include <queue>
#include <unordered_map>
#include <utility>

#include "data/byte_pairs.h"
#include "data/byte_symbols.h"
#include "data/tokenizer_files.h"
#include "data/words.h"
#include "extensor/data/text.h"

namespace extensor::data {

namespace {

constexpr std::size_t none = static_cast<std::size_t>(-1);

// Merges the bytes of words into tokens.
class Joiner {
 public:
  explicit Joiner(const BytePairs& pairs) : pairs_(pairs) {}

  void append(std::string_view word, Tokens& tokens) {
    parts_.clear();
    for (std::size_t i = 0; i < word.size(); ++i) {
      const std::uint32_t token = pairs_.token_of(static_cast<unsigned char>(word[i]));
      parts_.push_back({token, true, i == 0 ? none : i - 1, i + 1 == word.size() ? none : i + 1});
    }
    for (std::size_t i = 0; i + 1 < word.size(); ++i) offer(i);
    while (!candidates_.empty()) join_lowest();
    for (std::size_t i = 0; i != none; i = parts_[i].next) {
      tokens.push_back(static_cast<std::int64_t>(parts_[i].token));
    }
  }

 private:
  struct Part {
    std::uint32_t token;
    bool there;  // false once merged into the part before it
    std::size_t previous, next;
  };
  // A part that may be merged with the next one. Stale once either of them has changed.
  struct Candidate {
    std::uint32_t rank;
    std::size_t part;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : part > other.part;
    }
  };

  const BytePairs::Join* join_at(std::size_t part) const {
    const Part& left = parts_[part];
    if (!left.there || left.next == none) return nullptr;
    return pairs_.find(TokenPair{left.token, parts_[left.next].token});
  }

  void offer(std::size_t part) {
    if (const BytePairs::Join* join = join_at(part)) candidates_.push({join->rank, part});
  }

  // Merges all pairs of the lowest rank, from left to right, before considering the new pairs.
  void join_lowest() {
    const std::uint32_t rank = candidates_.top().rank;
    joined_.clear();
    while (!candidates_.empty() && candidates_.top().rank == rank) {
      const std::size_t part = candidates_.top().part;
      candidates_.pop();
      const BytePairs::Join* join = join_at(part);
      if (join == nullptr || join->rank != rank) continue;
      Part& left = parts_[part];
      Part& right = parts_[left.next];
      left.token = join->token;
      right.there = false;
      left.next = right.next;
      if (left.next != none) parts_[left.next].previous = part;
      joined_.push_back(part);
    }
    for (const std::size_t part : joined_) {
      offer(part);
      if (parts_[part].previous != none) offer(parts_[part].previous);
    }
  }

  const BytePairs& pairs_;
  std::vector<Part> parts_;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates_;
  std::vector<std::size_t> joined_;
};

}  // namespace

BytePairTokenizer::BytePairTokenizer(std::shared_ptr<const BytePairs> pairs)
    : pairs_(std::move(pairs)) {}

std::int64_t BytePairTokenizer::size() const {
  return static_cast<std::int64_t>(pairs_->tokens().size());
}

Tokens BytePairTokenizer::encode(std::string_view text) const {
  // The position in the result of the tokens of a word that occurred before.
  struct Known {
    std::size_t begin, end;
  };
  constexpr std::size_t most_known = 1 << 16, longest_known = 64;
  std::unordered_map<std::string_view, Known> known;
  Tokens tokens;
  Joiner joiner(*pairs_);
  each_word(text, [&](std::string_view word) {
    const auto found = word.size() <= longest_known ? known.find(word) : known.end();
    const std::size_t begin = tokens.size();
    if (found == known.end()) {
      joiner.append(word, tokens);
      if (word.size() <= longest_known && known.size() < most_known) {
        known.emplace(word, Known{begin, tokens.size()});
      }
      return;
    }
    const auto [first, last] = found->second;
    for (std::size_t i = first; i < last; ++i) tokens.push_back(tokens[i]);
  });
  return tokens;
}

std::string BytePairTokenizer::decode(const Tokens& tokens) const {
  check_tokens("BytePairTokenizer::decode", tokens, size());
  std::string text;
  for (const std::int64_t token : tokens) text += pairs_->tokens()[static_cast<std::size_t>(token)];
  return text;
}

std::string BytePairTokenizer::to_json() const {
  nlohmann::ordered_json file = {
      {"format", tokenizer_format}, {"version", 1}, {"kind", byte_pair_kind}};
  auto& list = file["tokens"] = nlohmann::ordered_json::array();
  for (std::size_t k = 0; k < pairs_->tokens().size(); ++k) {
    list.push_back(symbols_of(pairs_->tokens()[k]));
  }
  auto& merges = file["merges"] = nlohmann::ordered_json::array();
  for (const TokenPair& pair : pairs_->merges()) merges.push_back({pair.left, pair.right});
  return file.dump();
}

}  // namespace extensor::data
