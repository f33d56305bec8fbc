// Trains a byte-pair tokenizer. Every distinct word is stored once, as a list of tokens with its
// number of occurrences. For every pair of tokens, the count and the positions are maintained; a
// merge updates only its neighbours, so the cost is proportional to the pairs merged, not to the
// text.
#include <algorithm>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "core/check.h"
#include "data/byte_pairs.h"
#include "data/words.h"
#include "extensor/data/text.h"

namespace extensor::data {

using detail::message;

namespace {

class Learner {
 public:
  explicit Learner(std::string_view text) {
    for (unsigned byte = 0; byte < 256; ++byte) add_token(std::string(1, static_cast<char>(byte)));
    std::unordered_map<std::string_view, std::int64_t> words;
    each_word(text, [&](std::string_view word) { ++words[word]; });
    std::size_t total = 0;
    for (const auto& [word, count] : words) total += word.size();
    if (total >= none) {
      throw ValueError(message("BytePairTokenizer::train: the different words have ", total,
                               " bytes, must be less than ", none));
    }
    places_.reserve(total);
    for (const auto& [word, count] : words) add_word(word, count);
    for (const auto& [key, uses] : pairs_) candidates_.push({uses.count, key});
  }

  // Merges the most frequent pair. Returns false if no pair occurs twice.
  bool join_next() {
    while (!candidates_.empty()) {
      const Candidate best = candidates_.top();
      candidates_.pop();
      const auto found = pairs_.find(best.pair);
      const std::int64_t count = found->second.count;
      if (count != best.count) {
        // The entry is stale. Counts only decrease after a pair was queued, so it belongs further
        // back.
        if (count > 1) candidates_.push({count, best.pair});
        continue;
      }
      if (count < 2) return false;
      const TokenPair pair = {static_cast<std::uint32_t>(best.pair >> 32),
                              static_cast<std::uint32_t>(best.pair & UINT32_MAX)};
      std::string bytes(tokens_[pair.left]);
      bytes += tokens_[pair.right];
      // The same bytes may already be a token that was merged differently.
      if (bytes.size() > longest_token || known_.contains(bytes)) continue;
      const auto joined = static_cast<std::uint32_t>(tokens_.size());
      add_token(bytes);
      merges_.push_back(pair);
      std::vector<std::uint32_t> places = std::move(found->second.places);
      join(pair, joined, places);
      return true;
    }
    return false;
  }

  std::size_t size() const { return tokens_.size(); }

  std::shared_ptr<const BytePairs> result() const {
    const auto pairs = std::make_shared<BytePairs>("BytePairTokenizer::train", tokens_);
    for (const TokenPair& pair : merges_) pairs->join(pair);
    return pairs;
  }

 private:
  static constexpr std::uint32_t none = UINT32_MAX;

  struct Place {
    std::uint32_t token;  // none: merged into the place before it
    std::uint32_t previous, next;
    std::int64_t count;  // occurrences of the word
  };
  struct Uses {
    std::int64_t count = 0;
    std::vector<std::uint32_t> places;  // places of the left token; some may be stale
  };
  struct Candidate {
    std::int64_t count;
    std::uint64_t pair;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  static std::uint64_t key(std::uint32_t left, std::uint32_t right) {
    return static_cast<std::uint64_t>(left) << 32 | right;
  }

  void add_token(const std::string& bytes) {
    tokens_.push_back(bytes);
    known_.insert(bytes);
  }

  void add_word(std::string_view word, std::int64_t count) {
    const auto begin = static_cast<std::uint32_t>(places_.size());
    const auto end = static_cast<std::uint32_t>(begin + word.size());
    for (std::uint32_t at = begin; at < end; ++at) {
      places_.push_back({static_cast<unsigned char>(word[at - begin]), at == begin ? none : at - 1,
                         at + 1 == end ? none : at + 1, count});
      if (at > begin) add(at - 1, places_[at - 1].token, places_[at].token);
    }
  }

  void add(std::uint32_t place, std::uint32_t left, std::uint32_t right) {
    Uses& uses = pairs_[key(left, right)];
    uses.count += places_[place].count;
    uses.places.push_back(place);
  }
  void remove(std::uint32_t place, std::uint32_t left, std::uint32_t right) {
    pairs_[key(left, right)].count -= places_[place].count;
  }

  void join(TokenPair pair, std::uint32_t joined, std::vector<std::uint32_t>& places) {
    std::ranges::sort(places);  // from left to right, which matters for a pair of equal tokens
    fresh_.clear();
    for (const std::uint32_t at : places) {
      Place& left = places_[at];
      if (left.token != pair.left || left.next == none) continue;
      Place& right = places_[left.next];
      if (right.token != pair.right) continue;
      remove(at, pair.left, pair.right);
      if (left.previous != none) {
        const std::uint32_t before = places_[left.previous].token;
        remove(at, before, pair.left);
        add(left.previous, before, joined);
        fresh_.push_back(key(before, joined));
      }
      if (right.next != none) {
        const std::uint32_t after = places_[right.next].token;
        remove(at, pair.right, after);
        add(at, joined, after);
        fresh_.push_back(key(joined, after));
        places_[right.next].previous = at;
      }
      left.token = joined;
      left.next = right.next;
      right.token = none;
    }
    std::ranges::sort(fresh_);
    const auto twice = std::ranges::unique(fresh_);
    fresh_.erase(twice.begin(), twice.end());
    for (const std::uint64_t fresh : fresh_) candidates_.push({pairs_[fresh].count, fresh});
  }

  TokenTable tokens_;
  std::unordered_set<std::string> known_;
  std::vector<TokenPair> merges_;
  std::vector<Place> places_;
  std::unordered_map<std::uint64_t, Uses> pairs_;
  std::priority_queue<Candidate> candidates_;
  std::vector<std::uint64_t> fresh_;  // pairs that contain the newest token
};

}  // namespace

BytePairTokenizer BytePairTokenizer::train(std::string_view text, std::int64_t size) {
  constexpr std::int64_t fewest = 256;
  if (size < fewest) {
    throw ValueError(message("BytePairTokenizer::train: size is ", size, ", must be ", fewest,
                             " or more: every byte is a token"));
  }
  Learner learner(text);
  while (static_cast<std::int64_t>(learner.size()) < size && learner.join_next()) {
  }
  return BytePairTokenizer(learner.result());
}

}  // namespace extensor::data
