// Formulas as data: a function of Values is called once on traced values, which record the
// functions that are applied to them, and a device compiles the record into one kernel.
#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "backend/formula_call.h"
#include "extensor/dual.h"
#include "extensor/error.h"
#include "ops/chunks.h"

namespace extensor::ops {

// Thrown where a function cannot be traced; it is then evaluated on elements.
class NotTraceable : public ValueError {
 public:
  NotTraceable() : ValueError("expression: the elements of a traced value are not computed yet") {}
};

class Trace {
 public:
  explicit Trace(DType compute);

  DType compute() const { return compute_; }
  const std::vector<backend::FormulaStep>& steps() const { return steps_; }

  // A value that stands for an input.
  expression::Value input(int index) const;
  // Records a step, unless an equal one exists. NotTraceable if a value has elements, or if the
  // formula is too long.
  expression::Value apply(backend::ElementwiseOp op,
                          std::initializer_list<const expression::Value*> values,
                          backend::Parameter first, backend::Parameter second);
  // A value as the argument of a step, or as a result.
  backend::FormulaValue value_of(const expression::Value& value) const;

  static bool is_traced(const expression::Value& value) { return value.trace_ != 0; }
  // The trace of a traced value. NotTraceable if that has ended.
  static Trace& of(const expression::Value& value);

 private:
  expression::Value make(std::int32_t node) const;

  DType compute_;
  std::uint32_t serial_;
  std::vector<backend::FormulaStep> steps_;
};

// The results of the call, computed by one kernel of the device; none if the device has no such
// kernels or if the function cannot be traced.
std::optional<std::vector<Tensor>> evaluate_compiled(const ChunkedCall& call,
                                                     const ChunkFunction& function, Device device);

}  // namespace extensor::ops
