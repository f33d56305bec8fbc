#include "data/byte_pairs.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/check.h"
#include "data/byte_symbols.h"
#include "io/byte_source.h"
#include "io/text.h"

namespace extensor::data {

using detail::message;

BytePairs::BytePairs(const std::string& label, TokenTable tokens) : tokens_(std::move(tokens)) {
  for (std::size_t k = 0; k < tokens_.size(); ++k) {
    if (tokens_[k].empty() || tokens_[k].size() > longest_token) {
      io::damaged(label, "token ", k, " has ", tokens_[k].size(), " bytes (allowed: 1 to ",
                  longest_token, ")");
    }
  }
  sorted_.resize(tokens_.size());
  std::iota(sorted_.begin(), sorted_.end(), 0U);
  std::ranges::sort(sorted_, {}, [&](std::uint32_t k) { return std::pair(tokens_[k], k); });
  const auto same = [&](std::uint32_t a, std::uint32_t b) { return tokens_[a] == tokens_[b]; };
  if (const auto twice = std::ranges::adjacent_find(sorted_, same); twice != sorted_.end()) {
    io::damaged(label, "the tokens ", twice[0], " and ", twice[1], " are both ",
                io::in_quotes(symbols_of(tokens_[*twice])), " (allowed: every token once)");
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char character = static_cast<char>(byte);
    const std::optional<std::uint32_t> token = find(std::string_view(&character, 1));
    if (!token) {
      io::damaged(label, "no token is byte ", byte, ", written ",
                  io::in_quotes(symbols_of({&character, 1})), " (allowed: every byte is one)");
    }
    byte_tokens_[byte] = *token;
  }
}

std::optional<std::uint32_t> BytePairs::find(std::string_view token) const {
  const auto bytes = [&](std::uint32_t k) { return tokens_[k]; };
  const auto found = std::ranges::lower_bound(sorted_, token, {}, bytes);
  if (found == sorted_.end() || tokens_[*found] != token) return {};
  return *found;
}

std::string BytePairs::join(TokenPair pair) {
  if (const std::uint32_t most = std::max(pair.left, pair.right); most >= tokens_.size()) {
    return message("there is no token ", most, " (allowed: 0 to ", tokens_.size() - 1, ")");
  }
  std::string joined(tokens_[pair.left]);
  joined += tokens_[pair.right];
  const std::optional<std::uint32_t> token = find(joined);
  if (!token) {
    return message(io::in_quotes(symbols_of(joined)), ", the tokens ", pair.left, " and ",
                   pair.right, " joined, is no token");
  }
  const auto rank = static_cast<std::uint32_t>(merges_.size());
  const auto [old, is_new] = joins_.try_emplace(key(pair), Join{rank, *token});
  if (!is_new) {
    return message("the tokens ", pair.left, " and ", pair.right,
                   " are joined already, as the pair ", old->second.rank + 1);
  }
  merges_.push_back(pair);
  return {};
}

}  // namespace extensor::data
