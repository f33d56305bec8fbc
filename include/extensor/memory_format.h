// The order of a tensor's elements in memory.
#pragma once

#include <cstdint>

namespace extensor {

// contiguous: row-major, the last axis is dense. channels_last: a tensor of shape [batch, channels,
// height, width] stored as [batch, height, width, channels]; shapes and indices stay the same.
// preserve: the format of the tensor that a new one is made from.
//
// Results follow their operands: elementwise ops, convolutions, pooling and batch norm return
// channels_last tensors for channels_last operands.
enum class MemoryFormat : std::uint8_t { contiguous, channels_last, preserve };

}  // namespace extensor
