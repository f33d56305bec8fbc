// Plans the iteration of several operands over one shape: as few dimensions as their layouts allow,
// and the fast path that fits. Independent of the device: uses only sizes and strides.
#pragma once

#include <cstdint>

#include "extensor/shape.h"

namespace extensor::plan {

inline constexpr int max_operands = 4;

enum class Layout : std::uint8_t {
  contiguous,  // one dimension; every operand dense, or a scalar (stride 0)
  rows,        // the innermost dimension is long enough to process row by row
  tiled,       // rows, but an input is dense along another dimension (a transpose)
  gathered,    // short inner dimensions: blocks that span several rows
};

// Operand 0 is the result. Sizes and strides run from the outermost to the innermost dimension;
// there is at least one dimension, and none of size 1 unless it is the only one.
struct ElementwisePlan {
  Layout layout;
  Dims sizes;
  Dims strides[max_operands];
};

// Drops dimensions of size 1, orders the rest by the result's strides, merges dimensions that are
// contiguous in every operand, and classifies the layout. Every size is at least 1. For
// Layout::tiled the second innermost dimension is the one along which the transposed input is
// dense.
ElementwisePlan plan_elementwise(const Shape& shape, int operand_count,
                                 const std::int64_t* const* strides);

}  // namespace extensor::plan
