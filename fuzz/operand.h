// Tensors made by a chain of views, beside the numbers they should hold.
#pragma once

#include <vector>

#include "extensor/extensor.h"
#include "fuzz/bytes.h"

namespace extensor::fuzz {

// A tensor and its elements in row-major order, followed through every view by index arithmetic of
// our own.
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

// Of the given shape; its memory is strided, reversed, offset or repeated as the bytes say.
Operand draw_operand(Bytes& bytes, const Shape& shape, DType dtype, Numbers numbers);

std::int64_t count_of(const Shape& shape);

// Position of `index` (of `shape`) in an operand that broadcasts to that shape.
std::int64_t broadcast_position(const Shape& from, const Shape& shape, std::int64_t index);

}  // namespace extensor::fuzz
