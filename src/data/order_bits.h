// Random numbers for the order of an epoch.
#pragma once

#include <cstdint>

#include "data/draw_blocks.h"

namespace extensor::data {

// Random 64-bit numbers, a function of (seed, epoch); each Philox block yields two.
class OrderBits {
 public:
  OrderBits(std::uint64_t seed, std::int64_t epoch)
      : seed_(seed), epoch_(static_cast<std::uint64_t>(epoch)) {}

  std::uint64_t operator()() {
    if (next_++ % 2 != 0) return spare_;
    const detail::PhiloxBlock block = detail::draw_block(seed_, epoch_, order_kind, next_ / 2);
    spare_ = detail::join_words(block.word[2], block.word[3]);
    return detail::join_words(block.word[0], block.word[1]);
  }

 private:
  std::uint64_t seed_, epoch_, next_ = 0, spare_ = 0;
};

// Shuffles the numbers (Fisher-Yates, inside out: number i is inserted at a random position of
// 0 … i).
template <class Numbers>
void shuffle(Numbers& numbers, OrderBits& bits) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto number = numbers[i];
    const auto place = static_cast<std::size_t>(number_below(i + 1, bits));
    numbers[i] = numbers[place];
    numbers[place] = number;
  }
}

}  // namespace extensor::data
