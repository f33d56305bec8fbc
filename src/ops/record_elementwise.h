// Elementwise calls as recorded functions: their gradients are kernels of the same rows.
#pragma once

#include <span>

#include "core/graph.h"
#include "ops/launch.h"
#include "ops/row_gradients.h"

namespace extensor::ops {

struct ElementwiseRecord {
  ElementwiseOp op;
  const char* operation;
  DType dtype;  // of the result
  std::span<const Source> inputs;
  Parameter first, second;
};

bool records(const ElementwiseRecord& call);

// The node of a call that `records`. It is made before the result is written: a call in place gives
// the tensor that it is about to write, and the node keeps copies of what it needs of that memory.
detail::NodePointer make_elementwise_node(const ElementwiseRecord& call, const Shape& shape,
                                          const Tensor* written = nullptr);
// Makes `result`, written by now, the node's.
void finish_elementwise_node(const detail::NodePointer& node, Tensor& result);

// Runs the call with x as its result and records it, in the history of x and of what x is a view
// of. The caller has checked everything but whether x may be written while recording (ValueError).
Tensor& write_in_place(const ElementwiseRecord& call, DType compute, Tensor& x);

// A gradient of a broadcast result for an operand of this shape and dtype: summed over repeated
// dimensions before it is rounded.
Tensor fitted_to(const Tensor& full, const Shape& shape, DType dtype);

// The gradients that `gradient`, the gradient of some loss with respect to a row's backward, gives
// what that backward reads. `parameters` are those of the backward.
Tensor second_gradient(const UnaryGradient& row, const char* operation, const double* parameters,
                       const Tensor& gradient, const Tensor& grad_output, const Tensor& saved);

}  // namespace extensor::ops
