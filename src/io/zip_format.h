// The records of a zip archive: signatures, sizes and little-endian numbers.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace extensor::io {

inline constexpr std::uint32_t local_signature = 0x04034b50;
inline constexpr std::uint32_t central_signature = 0x02014b50;
inline constexpr std::uint32_t end_signature = 0x06054b50;
inline constexpr std::uint32_t end64_signature = 0x06064b50;
inline constexpr std::uint32_t locator64_signature = 0x07064b50;

// Sizes without the names, extra fields and comments that follow.
inline constexpr std::size_t local_size = 30;
inline constexpr std::size_t central_size = 46;
inline constexpr std::size_t end_size = 22;
inline constexpr std::size_t end64_size = 56;
inline constexpr std::size_t locator64_size = 20;

inline constexpr std::uint16_t stored_method = 0;
inline constexpr std::uint16_t deflated_method = 8;
inline constexpr std::uint16_t encrypted_flag = 1;
inline constexpr std::uint16_t utf8_flag = 1 << 11;
inline constexpr std::uint16_t zip64_field = 1;  // ID of the extra field with 64-bit sizes

// Reads the number at offset `at`. The caller ensures that it is inside the record.
template <class Number>
Number number_at(std::string_view record, std::size_t at) {
  Number value;
  std::memcpy(&value, record.data() + at, sizeof(value));
  return value;
}

template <class Number>
void append_number(std::string& record, Number value) {
  char bytes[sizeof(Number)];
  std::memcpy(bytes, &value, sizeof(value));
  record.append(bytes, sizeof(value));
}

}  // namespace extensor::io
