// Numbers whose highest byte comes first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace extensor::io {

template <class Word>
void reverse_words(std::span<std::byte> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(Word)) {
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                 bytes.begin() + static_cast<std::ptrdiff_t>(at + sizeof(Word)));
  }
}

// Every element of `item` bytes the other way round.
inline void reverse_bytes(std::span<std::byte> bytes, std::size_t item) {
  if (item == 2) reverse_words<std::uint16_t>(bytes);
  if (item == 4) reverse_words<std::uint32_t>(bytes);
  if (item == 8) reverse_words<std::uint64_t>(bytes);
}

// The number that begins at the first byte; the caller knows that all of it is there.
template <class Number>
Number big_endian(std::span<const std::byte> bytes) {
  Number value = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    value = static_cast<Number>(value << 8 | std::to_integer<Number>(bytes[i]));
  }
  return value;
}

}  // namespace extensor::io
