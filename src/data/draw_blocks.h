// The Philox blocks that data pipelines draw from. Random tensors use kinds 0 to 4 in the highest
// byte of the counter (core/philox.h); data uses other kinds, so that the two never share a block,
// whatever the seeds:
//
//   kind       word 0         word 1          word 2         word 3, lower 24 bits
//   examples   block          index           index, epoch   epoch
//              0 … 31         0 … 31          32 … 47, 0 … 15 16 … 39
//   order      block 0 … 31   block 32 … 63   epoch 0 … 31   epoch 32 … 39
//
// A block is 128 bits; words 0 and 1 are the first 64, with word 0 as the high half.
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

// A uniformly distributed number below `count` from 64 random bits: the high half of their product,
// with fresh bits for the few values that would cause bias (Lemire, "Fast random integer generation
// in an interval", 2019).
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
