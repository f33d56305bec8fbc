// The fuzzer's bytes as a source of choices; once they are used up, every choice is the first.
#pragma once

#include <cstddef>
#include <cstdint>

namespace extensor::fuzz {

class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}

  bool empty() const { return left_ == 0; }
  std::uint8_t byte() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }
  // 0 … count − 1
  std::int64_t below(std::int64_t count) {
    const std::int64_t wide = count > 256 ? byte() * 256 + byte() : byte();
    return count <= 1 ? 0 : wide % count;
  }
  bool flag() { return (byte() & 1) != 0; }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

}  // namespace extensor::fuzz
