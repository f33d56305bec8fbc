// Memory formats and the memory order of results. Works on sizes and strides only.
#pragma once

#include <cstdint>

#include "extensor/memory_format.h"
#include "extensor/tensor.h"

namespace extensor::detail {

// The strides of a tensor [batch, channels, height, width] stored as [batch, height, width,
// channels].
Strides channels_last_strides(const Shape& shape);

// Whether the elements are dense in that order. Strides of dimensions of size 1 do not matter, and
// an empty tensor always qualifies. False unless there are 4 dimensions.
bool is_channels_last(const Shape& shape, const Strides& strides);

// The format that the strides indicate, including those of dimensions of size 1: channels_last if
// they ascend from channels over width and height to batch, with or without gaps; contiguous
// otherwise, and if both formats have the same strides.
MemoryFormat format_of(const Tensor& x);
// channels_last if either tensor has that format. Tensors may be undefined.
MemoryFormat common_format(const Tensor& a, const Tensor& b);

// ShapeError for channels_last unless the shape has 4 dimensions, ValueError for preserve.
void check_format(const char* operation, const Shape& shape, MemoryFormat format);

// Dense strides for an elementwise result, in the memory order of its operands. The first operand
// that distinguishes two dimensions decides: the one with the smaller stride lies further inside.
// An operand with stride 0 along one of them does not distinguish them, nor does one with equal
// strides, unless the sizes differ. If none does, the order is row-major. `strides` are those of
// the operands broadcast to `shape`; negative ones count by their magnitude.
Strides result_strides(const Shape& shape, std::size_t operand_count,
                       const std::int64_t* const* strides);

// Dense strides in the memory order of one tensor.
Strides dense_strides(const Tensor& x);

}  // namespace extensor::detail
