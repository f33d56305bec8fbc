// What the op tables say about the gradients of their rows, by op: for recorded functions and for
// second derivatives.
#pragma once

#include <string_view>

#include "backend/elementwise_op.h"
#include "extensor/dual.h"

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
  bool saves_result;  // the backward reads the result, not the input
  bool reads_saved;   // it reads it at all
  bool takes_eps;     // its first parameter is eps, not the forward's
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
  const UnaryGradient* unary = nullptr;    // of the row `name` or `name_backward`
  const BinaryGradient* binary = nullptr;  // of the row `name`, `name_gradient_a` or `_b`
  int gradient = -1;                       // 0 or 1: the op is that gradient itself
};
const RowRole& row_role(ElementwiseOp op);

}  // namespace extensor::ops
