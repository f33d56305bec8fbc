// CRC-32C (Castagnoli), the checksum of TensorFlow's records, plain and masked.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace extensor::train {

constexpr std::array<std::uint32_t, 256> crc32c_table = [] {
  constexpr std::uint32_t polynomial = 0x82f63b78;  // reflected
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? polynomial : 0);
    table[byte] = value;
  }
  return table;
}();

constexpr std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t value = ~std::uint32_t{0};
  for (const char byte : bytes) {
    value = value >> 8 ^ crc32c_table[(value ^ static_cast<unsigned char>(byte)) & 0xff];
  }
  return ~value;
}

// Rotates and offsets the checksum: a CRC of data that contains its own CRC is weak.
constexpr std::uint32_t masked_crc32c(std::string_view bytes) {
  const std::uint32_t value = crc32c(bytes);
  return (value >> 15 | value << 17) + 0xa282ead8U;
}

}  // namespace extensor::train
