// Calls of the elementwise tables' rows, recorded: their gradients are kernels of the same rows.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "core/graph.h"
#include "ops/launch.h"
#include "ops/row_gradients.h"

namespace extensor::ops {

struct RowCall {
  ElementwiseOp op;
  const char* operation;  // the function called: "add_" where the op is add in place
  DType compute, dtype;   // dtype: of the result
  std::span<const Source> inputs;
  Parameter first = {}, second = {};
};

// Everything of a call but its tensors: the attributes of a row's op.
struct RowAttributes {
  ElementwiseOp row;
  DType compute, dtype;
  Parameter first, second;
  bool in_place = false;
  std::array<std::optional<Source>, backend::max_inputs> numbers = {};  // operands that are numbers

  RowAttributes(const RowCall& call, bool in_place);
};

// Records a call that has been run, where an input asks for it, and shows it to the capture hook.
void record_row(const RowCall& call, Tensor& result);

// Runs the call with x as its result and records it, in the history of x and of what x is a view
// of. The caller has checked everything but whether x may be written while recording (ValueError).
Tensor& write_in_place(const RowCall& call, Tensor& x);

// A gradient of a broadcast result for an operand of this shape and dtype: summed over repeated
// dimensions before it is rounded.
Tensor fitted_to(const Tensor& full, const Shape& shape, DType dtype);

// The gradients that `gradient`, the gradient of some loss with respect to a row's backward, gives
// what that backward reads. `parameters` are those of the backward.
Tensor second_gradient(const UnaryGradient& row, const char* operation, const double* parameters,
                       const Tensor& gradient, const Tensor& grad_output, const Tensor& saved);

}  // namespace extensor::ops
