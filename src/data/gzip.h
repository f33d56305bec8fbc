// Decompression of gzip data: any number of concatenated members, with their headers, CRCs and
// sizes checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "io/byte_source.h"
#include "io/inflater.h"

namespace extensor::io {

// Whether the source begins with gzip's magic number.
bool is_gzip(const ByteSource& source);

class GzipStream {
 public:
  explicit GzipStream(const ByteSource& source);

  // Returns the number of bytes read, less than the size of `into` only at the end. Throws
  // FormatError for damaged or truncated data.
  std::size_t read(std::span<std::byte> into);

 private:
  void refill();

  const ByteSource& source_;
  Inflater inflater_;
  std::vector<std::byte> buffer_;
  std::span<const std::byte> waiting_;  // unread part of the buffer
  std::uint64_t offset_ = 0;            // position in the source
  bool inside_ = false;                 // whether a member has begun and not ended
};

}  // namespace extensor::io
