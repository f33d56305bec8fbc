// The embedding family of a backend: rows of a dense table selected by number.
#pragma once

#include <cstddef>
#include <cstdint>

#include "extensor/dtype.h"

namespace extensor::backend {

// Forward: out[i] = values[ids[i]], from a table with `rows` rows. Backward: out[r] is the sum, in
// the order of i, of all values[i] with ids[i] == r, 0 if there is none, and 0 for row `skipped`
// (−1: no such row). Every id is in range.
struct EmbeddingCall {
  bool backward;
  DType dtype;
  std::int64_t rows, width, count;  // of the table; number of ids
  const std::int64_t* ids;
  const std::byte* values;
  std::byte* out;
  std::int64_t skipped = -1;
};

}  // namespace extensor::backend
