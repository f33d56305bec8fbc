// Destinations for writers: a file or memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace extensor::io {

class ByteSink {
 public:
  virtual ~ByteSink() = default;
  void write(std::span<const std::byte> bytes) {
    put(bytes);
    written_ += bytes.size();
  }
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  std::uint64_t written() const { return written_; }

 private:
  virtual void put(std::span<const std::byte> bytes) = 0;

  std::uint64_t written_ = 0;
};

class MemorySink final : public ByteSink {
 public:
  std::vector<std::byte> bytes;

 private:
  void put(std::span<const std::byte> more) override {
    bytes.insert(bytes.end(), more.begin(), more.end());
  }
};

}  // namespace extensor::io
