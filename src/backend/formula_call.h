// A formula over the elements of tensors, as data: a device may compile it into one kernel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/elementwise_op.h"
#include "extensor/dtype.h"
#include "extensor/shape.h"

namespace extensor::backend {

inline constexpr int max_formula_inputs = 5;   // those of an op, and the gradient of its result
inline constexpr int max_formula_outputs = 4;  // the gradients of the inputs of an op
inline constexpr int max_formula_steps = 512;

// An argument of a step, or a result.
struct FormulaValue {
  enum class Kind : std::uint8_t { number, input, step };
  Kind kind = Kind::number;
  std::int32_t index = 0;  // of the input or of an earlier step
  double number = 0;
};

// A comparison or predicate has bool results; any other op computes in the dtype of the formula.
struct FormulaStep {
  ElementwiseOp op;
  std::int32_t input_count;
  FormulaValue inputs[3];
  double parameters[2] = {0, 0};
};

// Elements of any dtype, which are converted to the dtype of the formula when read.
struct FormulaInput {
  const std::byte* data;
  DType dtype;
  const std::int64_t* strides;  // in elements, over the shape of the call
};

// Dense in row-major order; converted when written.
struct FormulaOutput {
  std::byte* data;
  DType dtype;
  FormulaValue value;
};

struct FormulaCall {
  const char* operation;
  DType compute;  // float32 or float64
  const Shape* shape;
  std::int64_t numel;
  int input_count, output_count, step_count;
  FormulaInput inputs[max_formula_inputs];
  FormulaOutput outputs[max_formula_outputs];
  const FormulaStep* steps;
};

// Whether the result of an op is bool.
constexpr bool is_test(ElementwiseOp op) {
  switch (op) {
#define COMPARE(name, ...) case ElementwiseOp::name:
#define PREDICATE(name, ...) case ElementwiseOp::name:
#include "extensor/tables/logical.def"
    return true;
    default:
      return false;
  }
}

}  // namespace extensor::backend
