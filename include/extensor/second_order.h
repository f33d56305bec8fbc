// The gradients of the elementwise backwards, for second derivatives. Generated from the op tables,
// by evaluating a row's backward on dual numbers.
//
//   Tensor grad_x = extensor::tanh_backward(grad_y, y);
//   // Given grad_grad_x, the gradient of some loss with respect to grad_x:
//   auto [grad_grad_y, grad_of_y] = extensor::tanh_double_backward(grad_grad_x, grad_y, y);
//
// The pair is the gradient of grad_output and the gradient of the tensor that the backward saved,
// the input x or the result y; each has its tensor's shape and dtype. Parameters and eps are those
// of the backward. Errors are those of the backward: ShapeError, DTypeError, ValueError.
#pragma once

#include <utility>

#include "extensor/elementwise.h"
#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

// The gradients of a row of two tensors; a and b are summed to their operand's shape.
struct DoubleGradients {
  Tensor grad_output, a, b;
};

#define EXTENSOR_DOUBLE_BACKWARD(name, ...)                                   \
  std::pair<Tensor, Tensor> name##_double_backward(const Tensor& grad_grad_x, \
                                                   const Tensor& grad_output, __VA_ARGS__);
#define UNARY(name, lo_, hi_, kinks, saved, ...) EXTENSOR_DOUBLE_BACKWARD(name, const Tensor& saved)
#define UNARY_EPS(name, lo_, hi_, kinks, saved, ...) \
  EXTENSOR_DOUBLE_BACKWARD(name, const Tensor& saved, StrictDouble eps = default_eps)
#define UNARY_1(name, p, p_default, lo_, hi_, kinks, saved, ...) \
  EXTENSOR_DOUBLE_BACKWARD(name, const Tensor& saved, StrictDouble p = p_default)
#define UNARY_2(name, p, p_default, q, q_default, lo_, hi_, kinks, saved, ...)    \
  EXTENSOR_DOUBLE_BACKWARD(name, const Tensor& saved, StrictDouble p = p_default, \
                           StrictDouble q = q_default)
#define UNARY_2_NUMERIC(name, p, q, lo_, hi_, kinks, saved, ...) \
  EXTENSOR_DOUBLE_BACKWARD(name, const Tensor& saved, const Scalar& p, const Scalar& q)
#include "extensor/tables/unary.def"
#undef EXTENSOR_DOUBLE_BACKWARD

// An undefined grad_grad_a or grad_grad_b counts as zeros.
#define EXTENSOR_DOUBLE_BACKWARD(name, ...)                                                    \
  DoubleGradients name##_double_backward(const Tensor& grad_grad_a, const Tensor& grad_grad_b, \
                                         const Tensor& grad_output, const Tensor& a,           \
                                         const Tensor& b __VA_OPT__(, ) __VA_ARGS__);
#define BINARY(name, ...) EXTENSOR_DOUBLE_BACKWARD(name)
#define BINARY_EPS(name, ...) EXTENSOR_DOUBLE_BACKWARD(name, StrictDouble eps = default_eps)
// The backward is linear in grad_output, which alone has a gradient. ValueError if both grad_grad_a
// and grad_grad_b are undefined.
#define BINARY_LINEAR(name, ...)                                                      \
  Tensor name##_double_backward(const Tensor& grad_grad_a, const Tensor& grad_grad_b, \
                                const Shape& a_shape, const Shape& b_shape);
#include "extensor/tables/binary.def"
#undef EXTENSOR_DOUBLE_BACKWARD

std::pair<Tensor, Tensor> gelu_double_backward(const Tensor& grad_grad_x, const Tensor& grad_output,
                                               const Tensor& x, StrictBool approximate);

// a · b + c; grad_grad_c adds to the gradient of grad_output, and c has no gradient here.
DoubleGradients fma_double_backward(const Tensor& grad_grad_a, const Tensor& grad_grad_b,
                                    const Tensor& grad_grad_c, const Tensor& grad_output,
                                    const Tensor& a, const Tensor& b);

}  // namespace extensor

EXTENSOR_END_API
