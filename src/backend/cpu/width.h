// Dispatch on the element width, which is all that moving elements needs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace extensor::cpu {

// Calls f with an unsigned integer of `size` bytes.
template <class Function>
void with_width(std::size_t size, Function&& f) {
  switch (size) {
    case 1:
      return f(std::uint8_t{});
    case 2:
      return f(std::uint16_t{});
    case 4:
      return f(std::uint32_t{});
    default:
      return f(std::uint64_t{});
  }
}

}  // namespace extensor::cpu
