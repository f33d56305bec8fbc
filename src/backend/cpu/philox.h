// Philox draws in bulk, with the bits of core/philox.h on every SIMD target.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/philox.h"

namespace extensor::cpu {

// The four words of each of `count` blocks, as detail::draw_block().
void philox_words(std::uint64_t seed, std::uint64_t stream, detail::DrawKind kind,
                  std::uint64_t first, std::int64_t count, std::uint32_t* words);

// The normals of detail::Normal32 from the words of their blocks; `count` is a multiple of 4.
void normals_of_words(const std::uint32_t* words, std::int64_t count, float* normals);

// Memory for draws of one kind.
template <class Draw>
class Draws {
 public:
  static constexpr std::int64_t most = 1024;  // at a time

  // Draws first … first + count − 1 for count ≤ most; they stay until the next call.
  const typename Draw::Value* make(std::uint64_t seed, std::uint64_t stream, std::uint64_t first,
                                   std::int64_t count) {
    constexpr std::int64_t per_block = Draw::per_block;
    const auto skip = static_cast<std::int64_t>(first % per_block);
    const std::int64_t blocks = (skip + count + per_block - 1) / per_block;
    philox_words(seed, stream, Draw::kind, first / per_block, blocks, words_);
    if constexpr (std::is_same_v<Draw, detail::Uniform32>) {
      return words_ + skip;
    } else {
      if constexpr (std::is_same_v<Draw, detail::Normal32>) {
        normals_of_words(words_, blocks * per_block, values_);
      } else {
        for (std::int64_t b = 0; b < blocks; ++b) {
          const std::uint32_t* word = words_ + 4 * b;
          Draw::make({{word[0], word[1], word[2], word[3]}}, values_ + per_block * b);
        }
      }
      return values_ + skip;
    }
  }

 private:
  static constexpr std::int64_t most_blocks = most / Draw::per_block + 1;
  static constexpr bool are_words = std::is_same_v<Draw, detail::Uniform32>;

  alignas(64) std::uint32_t words_[4 * most_blocks];
  alignas(64) typename Draw::Value values_[are_words ? 1 : Draw::per_block * most_blocks];
};

}  // namespace extensor::cpu
