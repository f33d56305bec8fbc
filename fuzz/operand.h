// Tensors made by a chain of views, together with their expected values.
#pragma once

#include <vector>

#include "extensor/extensor.h"
#include "fuzz/bytes.h"

namespace extensor::fuzz {

// A tensor and its expected elements in row-major order, tracked through every view by separate
// index arithmetic.
struct Operand {
  Tensor tensor;
  std::vector<double> values;

  const Shape& shape() const { return tensor.shape(); }
};

enum class Numbers : std::uint8_t { moderate, any };  // any: infinities, NaN, zeros, the largest

// Rank 0 to 4, at most some 500 elements.
Shape draw_shape(Bytes& bytes);
DType draw_float(Bytes& bytes);
DType draw_dtype(Bytes& bytes);

// A tensor of the given shape; the bytes make its memory strided, reversed, offset or repeated.
Operand draw_operand(Bytes& bytes, const Shape& shape, DType dtype, Numbers numbers);

std::int64_t count_of(const Shape& shape);

// Position of `index` (of `shape`) in an operand that broadcasts to that shape.
std::int64_t broadcast_position(const Shape& from, const Shape& shape, std::int64_t index);

}  // namespace extensor::fuzz
