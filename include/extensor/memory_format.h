// In which order the elements of a tensor lie in memory.
#pragma once

#include <cstdint>

namespace extensor {

// contiguous: row-major, the last axis is dense. channels_last: a tensor of shape [batch, channels,
// height, width] whose channels are dense, so that the memory reads [batch, height, width,
// channels]; shapes and indices stay the same. preserve: that of the tensor a new one is made of.
//
// Results follow their operands: elementwise ops, convolutions, pooling and batch norm of
// channels_last tensors give channels_last tensors.
enum class MemoryFormat : std::uint8_t { contiguous, channels_last, preserve };

}  // namespace extensor
