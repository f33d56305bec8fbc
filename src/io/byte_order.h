// Big-endian numbers.
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

// Reverses the bytes of every element of `item` bytes.
inline void reverse_bytes(std::span<std::byte> bytes, std::size_t item) {
  if (item == 2) reverse_words<std::uint16_t>(bytes);
  if (item == 4) reverse_words<std::uint32_t>(bytes);
  if (item == 8) reverse_words<std::uint64_t>(bytes);
}

// Reads the big-endian number at the start of `bytes`. The caller ensures that there are enough
// bytes.
template <class Number>
Number big_endian(std::span<const std::byte> bytes) {
  Number value = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    value = static_cast<Number>(value << 8 | std::to_integer<Number>(bytes[i]));
  }
  return value;
}

}  // namespace extensor::io
