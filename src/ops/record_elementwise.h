// Recording of calls to rows of the elementwise tables. Their gradients are kernels of the same
// rows.
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
  const char* operation;  // the function called: "add_" for the op add in place
  DType compute, dtype;   // dtype: that of the result
  std::span<const Source> inputs;
  Parameter first = {}, second = {};
};

// All of a call except its tensors: the attributes of a row's op.
struct RowAttributes {
  ElementwiseOp row;
  DType compute, dtype;
  Parameter first, second;
  bool in_place = false;
  std::array<std::optional<Source>, backend::max_inputs> numbers = {};  // operands that are numbers

  RowAttributes(const RowCall& call, bool in_place);
};

// Records a completed call if an input requires it, and reports it to the capture hook.
void record_row(const RowCall& call, Tensor& result);

// Runs the call with x as its result and records it in the history of x and of its base. The caller
// has checked everything except whether x may be written while recording (ValueError).
Tensor& write_in_place(const RowCall& call, Tensor& x);

// Sums the gradient of a broadcast result to the shape of an operand, then rounds it to the dtype.
Tensor fitted_to(const Tensor& full, const Shape& shape, DType dtype);

// Propagates `gradient`, the gradient with respect to the result of a row's backward, to the saved
// tensor that this backward reads. `parameters` are those of the backward.
Tensor second_gradient(const UnaryGradient& row, const char* operation, const double* parameters,
                       const Tensor& gradient, const Tensor& grad_output, const Tensor& saved);

}  // namespace extensor::ops
