// The elementwise kernels of one compute type: a loop per op over dense operands. The engine
// (engine.cpp) handles strides, other dtypes, broadcasting, tails and threads, so that a row of the
// op table compiles to a single loop per type and SIMD target.
#pragma once

#include <cstddef>

#include "backend/elementwise_op.h"
#include "extensor/dtype.h"

namespace extensor::cpu {

// Reads `n` elements from each input and writes `n`; `n` is a multiple of the table's lanes. An
// input with step 0 is one vector of a repeated element, read repeatedly; only loops of more than
// one lane receive such inputs. `out` may be one of the inputs.
using ElementwiseLoop = void (*)(const void* const* inputs, const std::size_t* steps, void* out,
                                 std::size_t n, const backend::Parameter* parameters);

struct ElementwiseTable {
  std::size_t lanes;
  ElementwiseLoop loops[backend::elementwise_op_count];  // null: not defined for this type
};

// The kernels for a compute type: float32, float64, or an integer type; bool computes as uint8.
const ElementwiseTable& elementwise_table(DType compute);

// One per compute type, each in a separate translation unit.
const ElementwiseTable& elementwise_table_float32();
const ElementwiseTable& elementwise_table_float64();
const ElementwiseTable& elementwise_table_integer(DType compute);

}  // namespace extensor::cpu
