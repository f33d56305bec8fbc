// The identity of every elementwise kernel, generated from the op tables.
#pragma once

#include <cstdint>

namespace extensor::backend {

enum class ElementwiseOp : std::uint16_t {
#define UNARY(name, ...) name, name##_backward,
#include "extensor/tables/unary.def"
#define BINARY(name, ...) name, name##_gradient_a, name##_gradient_b,
#include "extensor/tables/binary.def"
#define COMPARE(name, ...) name,
#define PREDICATE(name, ...) name,
#define BITWISE(name, ...) name,
#define BITWISE_UNARY(name, ...) name,
#include "extensor/tables/logical.def"
  copy,
  where,
  fma,
  count,
};

inline constexpr int elementwise_op_count = static_cast<int>(ElementwiseOp::count);

// A parameter of a row in both forms; float kernels read `real`, integer kernels `integer`.
struct Parameter {
  double real = 0;
  std::int64_t integer = 0;
};

}  // namespace extensor::backend
