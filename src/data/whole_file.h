// All bytes of a source, for formats that need random access.
#pragma once

#include <string_view>

#include "core/make_tensor.h"
#include "io/byte_source.h"

namespace extensor::io {

// Uses the library's allocator, so that the memory limit applies. Throws OutOfMemoryError.
class WholeFile {
 public:
  explicit WholeFile(const ByteSource& source)
      : bytes_(detail::make_empty(source.label().c_str(),
                                  {static_cast<std::int64_t>(source.size())}, DType::uint8,
                                  cpu_device)) {
    source.read(0, bytes_of(bytes_));
  }
  std::span<const std::byte> bytes() const { return bytes_of(bytes_); }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes().data()), bytes().size()};
  }

 private:
  Tensor bytes_;
};

}  // namespace extensor::io
