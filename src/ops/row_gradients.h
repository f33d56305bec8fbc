// The rows of the elementwise tables as ops, and what the tables say about their gradients: for
// recorded calls and for second derivatives.
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
  bool saves_result;          // the backward reads the result, not the input
  bool reads_saved;           // it reads it at all
  bool takes_eps;             // its first parameter is eps, not the forward's
  const char* parameters[2];  // the names of the forward's
  UnaryExpression* expression;
};

struct BinaryGradient {
  const char* backward_name;
  ElementwiseOp forward, gradients[2];
  std::string_view texts[2];  // "g" costs nothing
  bool reads[2][2];           // gradient k reads operand j
  bool takes_eps;
  BinaryExpression* expressions[2];
};

// What an op is in the tables.
struct RowRole {
  Op op = {};                              // as the registry lists it
  const char* parameters[2] = {};          // their names
  const UnaryGradient* unary = nullptr;    // of the row `name` or `name_backward`
  const BinaryGradient* binary = nullptr;  // of the row `name`, `name_gradient_a` or `_b`
  int gradient = -1;                       // 0 or 1: the op is that gradient itself
};
const RowRole& row_role(ElementwiseOp op);

// The attributes of a row's call are RowAttributes, of record_elementwise.h.
extern const AttributeType row_attribute_type;
Results run_row(const Run& run, const void* attributes, Inputs inputs);

}  // namespace extensor::ops
