// The blocks of Philox that data is drawn from. Tensors' draws have kinds 0 to 4 in the highest
// byte of the counter (core/philox.h); these have kinds of their own there, so that no block is
// ever made for both, whatever the seeds:
//
//   kind       word 0         word 1          word 2         word 3, lower 24 bits
//   examples   block          index           index, epoch   epoch
//              0 … 31         0 … 31          32 … 47, 0 … 15 16 … 39
//   order      block 0 … 31   block 32 … 63   epoch 0 … 31   epoch 32 … 39
//
// A block is 128 bits, of which words 0 and 1 are the first 64, the first as the high half.
#pragma once

#include <cstdint>

#include "core/philox.h"

namespace extensor::data {

inline constexpr auto examples_kind = static_cast<detail::DrawKind>(0x80);
inline constexpr auto order_kind = static_cast<detail::DrawKind>(0x81);
inline constexpr int epoch_bits = 40, index_bits = 48;

inline detail::PhiloxBlock example_block(std::uint64_t seed, std::uint64_t epoch,
                                         std::uint64_t index, std::uint32_t block) {
  return detail::draw_block(seed, epoch << 16 | index >> 32, examples_kind, index << 32 | block);
}

// A number below `count`, every one equally likely, of 64 random bits: the high half of their
// product, and other bits for the few that would favour some (Lemire, "Fast random integer
// generation in an interval", 2019).
template <class Bits>
std::uint64_t number_below(std::uint64_t count, Bits&& bits) {
  auto product = static_cast<unsigned __int128>(bits()) * count;
  if (static_cast<std::uint64_t>(product) < count) [[unlikely]] {
    const std::uint64_t favoured = (0 - count) % count;
    while (static_cast<std::uint64_t>(product) < favoured) {
      product = static_cast<unsigned __int128>(bits()) * count;
    }
  }
  return static_cast<std::uint64_t>(product >> 64);
}

}  // namespace extensor::data
