// The rows of the elementwise tables as ops, and the gradients that the tables define, for recorded
// calls and second derivatives.
#pragma once

#include <string_view>

#include "backend/elementwise_op.h"
#include "extensor/dual.h"
#include "ops/op.h"

namespace extensor::ops {

using backend::ElementwiseOp;

// A gradient expression as a function of dual numbers.
using UnaryExpression = expression::Dual(const double* parameters, const expression::Dual& g,
                                         const expression::Dual& saved);
using BinaryExpression = expression::Dual(const double* parameters, const expression::Dual& g,
                                          const expression::Dual& a, const expression::Dual& b);

struct UnaryGradient {
  const char* backward_name;  // "tanh_backward"
  ElementwiseOp forward, backward;
  bool saves_result;          // the backward reads the result instead of the input
  bool reads_saved;           // the backward reads the saved tensor
  bool takes_eps;             // the first parameter is eps instead of the forward's
  const char* parameters[2];  // names of the forward's parameters
  UnaryExpression* expression;
};

struct BinaryGradient {
  const char* backward_name;
  ElementwiseOp forward, gradients[2];
  std::string_view texts[2];  // "g" needs no kernel
  bool reads[2][2];           // gradient k reads operand j
  bool takes_eps;
  BinaryExpression* expressions[2];
};

// The role of an op in the tables.
struct RowRole {
  Op op = {};                              // entry of the registry
  const char* parameters[2] = {};          // names of the parameters
  const UnaryGradient* unary = nullptr;    // of the row `name` or `name_backward`
  const BinaryGradient* binary = nullptr;  // of the row `name`, `name_gradient_a` or `_b`
  int gradient = -1;                       // 0 or 1 if the op is that gradient itself
};
const RowRole& row_role(ElementwiseOp op);

// The attributes of a call of a row are RowAttributes (record_elementwise.h).
extern const AttributeType row_attribute_type;
Results run_row(const Run& run, const void* attributes, Inputs inputs);

}  // namespace extensor::ops
