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
  constexpr std::uint32_t none = UINT32_MAX;
  byte_tokens_.fill(none);
  for (std::size_t k = 0; k < tokens_.size(); ++k) {
    const std::string_view token = tokens_[k];
    if (token.empty() || token.size() > longest_token) {
      io::damaged(label, "token ", k, " has ", token.size(), " bytes (allowed: 1 to ",
                  longest_token, ")");
    }
    if (token.size() > 1) continue;
    byte_tokens_[static_cast<unsigned char>(token.front())] = static_cast<std::uint32_t>(k);
  }
  if (const auto* missing = std::ranges::find(byte_tokens_, none); missing != byte_tokens_.end()) {
    const auto byte = missing - byte_tokens_.begin();
    io::damaged(label, "no token is byte ", byte, ", written ",
                io::in_quotes(symbols_of(std::string(1, static_cast<char>(byte)))),
                " (allowed: every byte is one)");
  }
  sorted_.resize(tokens_.size());
  std::iota(sorted_.begin(), sorted_.end(), 0U);
  const auto bytes = [&](std::uint32_t k) { return tokens_[k]; };
  std::ranges::stable_sort(sorted_, {}, bytes);
  const auto twice = std::ranges::adjacent_find(sorted_, {}, bytes);
  if (twice != sorted_.end()) {
    io::damaged(label, "the tokens ", twice[0], " and ", twice[1], " are both ",
                io::in_quotes(symbols_of(bytes(*twice))), " (allowed: every token once)");
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
