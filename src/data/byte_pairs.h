// The data of a byte-pair tokenizer: its tokens and its merges, in order of priority.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace extensor::data {

// The maximum length of a token in bytes. It bounds the memory that a file or a text can claim.
constexpr std::size_t longest_token = 1024;

// Strings in contiguous memory: a file of short tokens needs little more memory than disk space.
class TokenTable {
 public:
  void push_back(std::string_view token) {
    bytes_ += token;
    ends_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  }
  std::size_t size() const { return ends_.size(); }
  std::string_view operator[](std::size_t token) const {
    const std::size_t begin = token == 0 ? 0 : ends_[token - 1];
    return std::string_view(bytes_).substr(begin, ends_[token] - begin);
  }

 private:
  std::string bytes_;
  std::vector<std::uint32_t> ends_;
};

struct TokenPair {
  std::uint32_t left, right;
};

class BytePairs {
 public:
  struct Join {
    std::uint32_t rank;   // lower ranks are merged first
    std::uint32_t token;  // the merged token
  };

  // Throws FormatError, prefixed with the label, for an empty, too long or duplicate token and for
  // a byte without a token.
  BytePairs(const std::string& label, TokenTable tokens);
  // Appends a merge. Returns the reason if it is invalid, otherwise an empty string.
  std::string join(TokenPair pair);

  const TokenTable& tokens() const { return tokens_; }
  const std::vector<TokenPair>& merges() const { return merges_; }
  std::uint32_t token_of(unsigned char byte) const { return byte_tokens_[byte]; }
  std::optional<std::uint32_t> find(std::string_view token) const;
  const Join* find(TokenPair pair) const {
    const auto found = joins_.find(key(pair));
    return found == joins_.end() ? nullptr : &found->second;
  }

 private:
  static std::uint64_t key(TokenPair pair) {
    return static_cast<std::uint64_t>(pair.left) << 32 | pair.right;
  }

  TokenTable tokens_;
  std::vector<std::uint32_t> sorted_;  // token numbers, sorted by the tokens' bytes
  std::array<std::uint32_t, 256> byte_tokens_{};
  std::vector<TokenPair> merges_;
  std::unordered_map<std::uint64_t, Join> joins_;
};

}  // namespace extensor::data
