// The complex family of a backend: elementwise functions of complex numbers. Rows of the op tables
// that have a meaning for complex numbers are among them; the others are refused before any kernel.
#pragma once

#include <cstdint>
#include <optional>

#include "backend/elementwise_op.h"

namespace extensor::backend {

enum class ComplexOp : std::uint8_t {
  copy,
  where,
  // rows of two operands
  add,
  subtract,
  multiply,
  divide,
  power,
  equal,
  not_equal,
  logical_and,
  logical_or,
  logical_xor,
  // rows of one operand
  negative,
  positive,
  abs,
  square,
  sign,
  reciprocal,
  exp,
  exp2,
  expm1,
  log,
  log2,
  log10,
  log1p,
  sqrt,
  rsqrt,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  tanh,
  asinh,
  acosh,
  atanh,
  logical_not,
  isnan,
  isinf,
  isfinite,
  // no rows
  conj,
  angle,
  complex,  // of two real operands
};

// The complex form of a row, if it has one.
constexpr std::optional<ComplexOp> complex_form(ElementwiseOp op) {
  switch (op) {
#define EXTENSOR_FORM(name) \
  case ElementwiseOp::name: \
    return ComplexOp::name;
    EXTENSOR_FORM(copy)
    EXTENSOR_FORM(where)
    EXTENSOR_FORM(add)
    EXTENSOR_FORM(subtract)
    EXTENSOR_FORM(multiply)
    EXTENSOR_FORM(divide)
    EXTENSOR_FORM(power)
    EXTENSOR_FORM(equal)
    EXTENSOR_FORM(not_equal)
    EXTENSOR_FORM(logical_and)
    EXTENSOR_FORM(logical_or)
    EXTENSOR_FORM(logical_xor)
    EXTENSOR_FORM(negative)
    EXTENSOR_FORM(positive)
    EXTENSOR_FORM(abs)
    EXTENSOR_FORM(square)
    EXTENSOR_FORM(sign)
    EXTENSOR_FORM(reciprocal)
    EXTENSOR_FORM(exp)
    EXTENSOR_FORM(exp2)
    EXTENSOR_FORM(expm1)
    EXTENSOR_FORM(log)
    EXTENSOR_FORM(log2)
    EXTENSOR_FORM(log10)
    EXTENSOR_FORM(log1p)
    EXTENSOR_FORM(sqrt)
    EXTENSOR_FORM(rsqrt)
    EXTENSOR_FORM(sin)
    EXTENSOR_FORM(cos)
    EXTENSOR_FORM(tan)
    EXTENSOR_FORM(asin)
    EXTENSOR_FORM(acos)
    EXTENSOR_FORM(atan)
    EXTENSOR_FORM(sinh)
    EXTENSOR_FORM(cosh)
    EXTENSOR_FORM(tanh)
    EXTENSOR_FORM(asinh)
    EXTENSOR_FORM(acosh)
    EXTENSOR_FORM(atanh)
    EXTENSOR_FORM(logical_not)
    EXTENSOR_FORM(isnan)
    EXTENSOR_FORM(isinf)
    EXTENSOR_FORM(isfinite)
#undef EXTENSOR_FORM
    default:
      return std::nullopt;
  }
}

}  // namespace extensor::backend
