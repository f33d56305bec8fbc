// Helpers that all datasets share: validate a request and gather rows.
#pragma once

#include <cstring>
#include <vector>

#include "core/check.h"
#include "extensor/data/dataset.h"

namespace extensor::data {

// Throws IndexError for an index outside [0, size).
inline void check_request(const char* operation, const Request& request, std::int64_t size) {
  for (const std::int64_t index : request.indices) {
    if (index < 0 || index >= size) {
      throw IndexError(detail::message(operation, ": index ", index, " of ", size,
                                       " examples (allowed: 0 and more, below their number)"));
    }
  }
}

inline std::vector<std::int64_t> indices_of(const Request& request) {
  return {request.indices.begin(), request.indices.end()};
}

// The shape of a batch of `count` examples of shape `one`.
inline Shape batch_shape(std::size_t count, const Shape& one) {
  Shape shape{static_cast<std::int64_t>(count)};
  for (const std::int64_t size : one) shape.push_back(size);
  return shape;
}

// memcpy requires valid pointers even for 0 bytes, and an empty tensor may have none.
inline void copy_row(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

}  // namespace extensor::data
