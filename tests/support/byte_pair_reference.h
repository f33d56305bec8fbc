// A plain reference for byte-pair tokenizers: words are split by a regular expression, and counts
// and ranks are computed again for every merged pair.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <regex>
#include <string>
#include <utility>
#include <vector>

namespace test_support {

using Parts = std::vector<std::string>;
using StringPair = std::pair<std::string, std::string>;

// GPT-2's expression, for ASCII.
inline Parts ascii_words(const std::string& text) {
  static const std::regex expression(
      "'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\\sA-Za-z0-9]+|\\s+(?!\\S)|\\s+");
  Parts words;
  for (auto at = std::sregex_iterator(text.begin(), text.end(), expression);
       at != std::sregex_iterator(); ++at) {
    words.push_back(at->str());
  }
  return words;
}

inline Parts bytes_of_word(const std::string& word) {
  Parts parts;
  for (const char byte : word) parts.emplace_back(1, byte);
  return parts;
}

// Every occurrence, from left to right.
inline Parts joined(const Parts& parts, const StringPair& pair) {
  Parts result;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i + 1 < parts.size() && parts[i] == pair.first && parts[i + 1] == pair.second) {
      result.push_back(parts[i] + parts[i + 1]);
      ++i;
    } else {
      result.push_back(parts[i]);
    }
  }
  return result;
}

struct LearntPairs {
  Parts tokens;  // starts with the single bytes
  std::vector<StringPair> merges;
};

inline LearntPairs learn_pairs(const Parts& text, std::size_t size) {
  LearntPairs learnt;
  std::map<std::string, std::size_t> numbers;
  const auto add = [&](const std::string& token) {
    numbers[token] = learnt.tokens.size();
    learnt.tokens.push_back(token);
  };
  for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
  std::vector<Parts> words;
  for (const std::string& word : text) words.push_back(bytes_of_word(word));
  while (learnt.tokens.size() < size) {
    std::map<std::pair<std::size_t, std::size_t>, std::size_t> counts;
    for (const Parts& word : words) {
      for (std::size_t i = 0; i + 1 < word.size(); ++i) {
        if (numbers.contains(word[i] + word[i + 1])) continue;
        ++counts[{numbers[word[i]], numbers[word[i + 1]]}];
      }
    }
    // The first of the most frequent pairs, in the order of token numbers.
    const auto best = std::ranges::max_element(
        counts, [](const auto& a, const auto& b) { return a.second < b.second; });
    if (best == counts.end() || best->second < 2) break;
    const StringPair pair = {learnt.tokens[best->first.first], learnt.tokens[best->first.second]};
    add(pair.first + pair.second);
    learnt.merges.push_back(pair);
    for (Parts& word : words) word = joined(word, pair);
  }
  return learnt;
}

// GPT-2's loop: merges all occurrences of the pair with the lowest rank, until none is left.
inline Parts join_word(const std::string& word, const std::vector<StringPair>& merges) {
  Parts parts = bytes_of_word(word);
  for (;;) {
    std::size_t best = merges.size();
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = std::ranges::find(merges, StringPair(parts[i], parts[i + 1]));
      best = std::min(best, static_cast<std::size_t>(found - merges.begin()));
    }
    if (best == merges.size()) return parts;
    parts = joined(parts, merges[best]);
  }
}

// ---- GPT-2's files ------------------------------------------------------------------------------

// The character that stands for each byte, in UTF-8: printable Latin-1 characters stand for
// themselves, the others are numbered from U+0100.
inline std::vector<std::string> gpt2_symbols() {
  std::vector<std::string> symbols(256);
  unsigned next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool seen = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
    const unsigned code = seen ? byte : next++;
    if (code < 0x80) {
      symbols[byte] = {static_cast<char>(code)};
    } else {
      symbols[byte] = {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
    }
  }
  return symbols;
}

inline std::string in_symbols(const std::string& bytes) {
  static const std::vector<std::string> symbols = gpt2_symbols();
  std::string text;
  for (const char byte : bytes) text += symbols[static_cast<unsigned char>(byte)];
  return text;
}

inline std::string gpt2_vocabulary(const Parts& tokens) {
  std::string file = "{";
  for (std::size_t k = 0; k < tokens.size(); ++k) {
    std::string name;
    for (const char byte : in_symbols(tokens[k])) {
      if (byte == '"' || byte == '\\') name += '\\';
      name += byte;
    }
    file += (k == 0 ? "\"" : ", \"") + name + "\": " + std::to_string(k);
  }
  return file + "}";
}

inline std::string gpt2_merges(const std::vector<StringPair>& merges) {
  std::string file = "#version: 0.2\n";
  for (const auto& [left, right] : merges)
    file += in_symbols(left) + " " + in_symbols(right) + "\n";
  return file;
}

// The bytes in the order of GPT-2's own file: the printable ones, then the others.
inline Parts gpt2_bytes() {
  Parts seen, others;
  for (int byte = 0; byte < 256; ++byte) {
    const bool shown = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
    (shown ? seen : others).emplace_back(1, static_cast<char>(byte));
  }
  seen.insert(seen.end(), others.begin(), others.end());
  return seen;
}

}  // namespace test_support
