// The dropout family of a backend.
#pragma once

#include <cstddef>
#include <cstdint>

#include "extensor/dtype.h"

namespace extensor::backend {

// Element i is 0 if draw `offset + i` of (seed, stream), a uniform 32-bit word, is below p · 2³²,
// else x · scale. x and out are dense.
struct DropoutCall {
  DType dtype;
  std::int64_t numel;
  const std::byte* x;
  std::byte* out;
  std::uint64_t seed, stream, offset;
  double p, scale;
};

}  // namespace extensor::backend
