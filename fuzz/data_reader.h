// Helpers of the data file fuzzers: arbitrary bytes must produce a value or an Error.
#pragma once

#include <zlib.h>

#include "fuzz/reader.h"

namespace extensor::fuzz {

// Reads, and returns whether the result is a value.
template <class Read>
bool reads(const std::uint8_t* data, std::size_t size, Read&& read) {
  try {
    const AllocationLimit limit(size);
    read(io::MemorySource("fuzz", std::as_bytes(std::span(data, size))));
    return true;
  } catch (const Error&) {
    return false;
  }
}

// The bytes compressed in the format of gzip or zlib.
inline File compressed(std::span<const std::byte> bytes, bool gzip) {
  z_stream stream{};
  // A small window, because setup time dominates for short inputs.
  constexpr int window_bits = 9, memory_level = 1;
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, window_bits + (gzip ? 16 : 0), memory_level,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    std::abort();
  }
  File file(deflateBound(&stream, bytes.size()) + 64);
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(file.data());
  stream.avail_out = static_cast<uInt>(file.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) std::abort();
  file.resize(stream.total_out);
  deflateEnd(&stream);
  return file;
}

}  // namespace extensor::fuzz
