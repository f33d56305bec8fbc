// The allocator's size classes: four steps per power of two for small blocks, eight for large ones.
// Sizes are bytes of data without the header, so that powers of two fit exactly.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

namespace extensor::detail {

inline constexpr std::size_t large_threshold = std::size_t{1} << 20;
inline constexpr int small_class_count = 52;  // 64, 128, 192, 256, 320, 384, 448, 512, 640, … 1 MiB
inline constexpr int large_class_count = 44 * 8;

// The class of `bytes`, which is below large_threshold.
constexpr int small_class(std::size_t bytes) {
  if (bytes <= 256) return bytes == 0 ? 0 : static_cast<int>((bytes - 1) / 64);
  const int exponent = std::bit_width(bytes - 1) - 1;
  const int quarter = static_cast<int>(((bytes - 1) >> (exponent - 2)) & 3);
  return 4 + (exponent - 8) * 4 + quarter;
}

constexpr std::size_t small_class_bytes(int size_class) {
  if (size_class < 4) return 64 * (static_cast<std::size_t>(size_class) + 1);
  const int exponent = 8 + (size_class - 4) / 4;
  const auto quarters = static_cast<std::size_t>((size_class - 4) % 4 + 1);
  return (std::size_t{1} << exponent) + (quarters << (exponent - 2));
}

// The class of `bytes`, which is from large_threshold to 2⁶².
constexpr int large_class(std::size_t bytes) {
  const int exponent =
      std::max(static_cast<int>(std::bit_width(bytes - 1)) - 1, 19);  // the smallest large class
  const int eighth = static_cast<int>(((bytes - 1) >> (exponent - 3)) & 7);
  return (exponent - 19) * 8 + eighth;
}

constexpr std::size_t large_class_bytes(int size_class) {
  const int exponent = 19 + size_class / 8;
  const auto eighths = static_cast<std::size_t>(size_class % 8 + 1);
  return (std::size_t{1} << exponent) + (eighths << (exponent - 3));
}

static_assert(small_class(large_threshold - 1) == small_class_count - 1);
static_assert(small_class_bytes(small_class_count - 1) == large_threshold);
static_assert(large_class_bytes(large_class(large_threshold)) == large_threshold);

}  // namespace extensor::detail
