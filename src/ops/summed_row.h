// Gradients of operands that were broadcast: a row of the tables, evaluated and summed in parts.
#pragma once

#include "ops/launch.h"

namespace extensor::ops {

// reduce_broadcast_dims(evaluate(op, …), shape).to(dtype), computed in `compute`, without memory
// for the whole result of the row: it is evaluated and summed in parts of bounded size, whose sums
// are added pairwise. The parts depend on the shapes only, so the result does not depend on the
// number of threads. A call that is recorded takes the two steps, which can be differentiated.
Tensor evaluate_summed(ElementwiseOp op, const char* operation, DType compute, DType dtype,
                       std::span<const Source> inputs, const Shape& shape, Parameter first = {});

}  // namespace extensor::ops
