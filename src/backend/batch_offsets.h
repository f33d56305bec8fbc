// The positions of the matrices of a batch.
#pragma once

#include <cstdint>

namespace extensor::backend {

// Matrix i begins [i] elements after the first one: the digits of i, counted in row-major order of
// `sizes`, times `strides`. Passed to kernels by value.
struct BatchOffsets {
  static constexpr int max_levels = 8;

  int levels = 0;  // 0: all matrices are the same
  std::int64_t sizes[max_levels], strides[max_levels];

  BatchOffsets() {}  // NOLINT: clearing the arrays would cost every small product
  // Matrices `stride` elements apart.
  explicit BatchOffsets(std::int64_t stride) : levels(1) {
    sizes[0] = 1;  // never read
    strides[0] = stride;
  }

  constexpr std::int64_t operator[](std::int64_t i) const {
    if (levels == 0) return 0;
    std::int64_t offset = 0;
    for (int d = levels - 1; d > 0; --d) {
      offset += i % sizes[d] * strides[d];
      i /= sizes[d];
    }
    return offset + i * strides[0];
  }
};

}  // namespace extensor::backend
