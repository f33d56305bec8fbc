// Deflate, undone piece by piece: bytes go in, bytes come out, and nothing is kept between.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace extensor::io {

// A byte of deflate makes no more than so many.
inline constexpr std::uint64_t most_inflated = 1032;

class Inflater {
 public:
  // What stands around the compressed data.
  enum class Wrapper : std::uint8_t { none, zlib, gzip };

  // The label is named in errors. OutOfMemoryError.
  Inflater(std::string label, Wrapper wrapper);
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater();

  // As much as there is to read and room for; both move past what was used. True at the end, where
  // the checksums were right. FormatError for what is not deflate.
  bool inflate(std::span<const std::byte>& from, std::span<std::byte>& into);
  // Another one begins behind an end.
  void restart();

 private:
  std::string label_;
  z_stream stream_{};
};

}  // namespace extensor::io
