// What gzip compressed, as a sequence of bytes: any number of members one after the other, their
// headers, CRCs and sizes checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "io/byte_source.h"
#include "io/inflater.h"

namespace extensor::io {

// Whether it begins as gzip's files do.
bool is_gzip(const ByteSource& source);

class GzipStream {
 public:
  explicit GzipStream(const ByteSource& source);

  // How many bytes came; fewer than there is room for only at the end. FormatError for data that is
  // damaged or cut off.
  std::size_t read(std::span<std::byte> into);

 private:
  void refill();

  const ByteSource& source_;
  Inflater inflater_;
  std::vector<std::byte> buffer_;
  std::span<const std::byte> waiting_;  // of the buffer
  std::uint64_t offset_ = 0;            // in the source
  bool inside_ = false;                 // of a member
};

}  // namespace extensor::io
