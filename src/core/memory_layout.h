// Memory formats, and in which order the elements of a result lie. Only sizes and strides.
#pragma once

#include <cstdint>

#include "extensor/memory_format.h"
#include "extensor/tensor.h"

namespace extensor::detail {

// The strides of [batch, channels, height, width] whose memory reads [batch, height, width,
// channels].
Strides channels_last_strides(const Shape& shape);

// Whether the elements lie without gaps in that order: strides of dimensions of size 1 do not
// matter, and an empty tensor always does. False unless there are 4 dimensions.
bool is_channels_last(const Shape& shape, const Strides& strides);

// The format that the strides stand for, those of dimensions of size 1 included: channels_last
// where they ascend from channels over width and height to batch, with gaps or without. contiguous
// otherwise, and where both formats have the same strides.
MemoryFormat format_of(const Tensor& x);
// channels_last where one of the tensors, which may be undefined, is of that format.
MemoryFormat common_format(const Tensor& a, const Tensor& b);

// ShapeError for channels_last unless the shape has 4 dimensions, ValueError for preserve.
void check_format(const char* operation, const Shape& shape, MemoryFormat format);

// Strides without gaps for an elementwise result, in the memory order of its operands: a dimension
// with smaller strides in the first operand that tells two dimensions apart lies further inside. An
// operand with stride 0 along one of them does not tell them apart, nor does one with equal
// strides, unless the sizes differ. Where none does, the order is row-major. `strides` are those of
// the operands broadcast to `shape`; negative ones count by their distance.
Strides result_strides(const Shape& shape, std::size_t operand_count,
                       const std::int64_t* const* strides);

// Strides without gaps in the memory order of one tensor.
Strides dense_strides(const Tensor& x);

}  // namespace extensor::detail
