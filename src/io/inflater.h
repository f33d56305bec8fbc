// Streaming decompression of deflate data. The wrapper around zlib buffers nothing.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace extensor::io {

// Deflate expands one byte to at most this many.
inline constexpr std::uint64_t most_inflated = 1032;

class Inflater {
 public:
  // The format around the compressed data.
  enum class Wrapper : std::uint8_t { none, zlib, gzip };

  // Errors begin with the label. Throws OutOfMemoryError.
  Inflater(std::string label, Wrapper wrapper);
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater();

  // Inflates as much as the input and the space allow and advances both spans past the bytes used.
  // Returns true at the end of the stream, after verifying its checksum. Throws FormatError for
  // invalid data.
  bool inflate(std::span<const std::byte>& from, std::span<std::byte>& into);
  // Prepares for another stream after the end of one.
  void restart();

 private:
  std::string label_;
  z_stream stream_{};
};

}  // namespace extensor::io
