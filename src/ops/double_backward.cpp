// Second derivatives: the backward expressions of the rows, evaluated on dual numbers. The
// derivative of B(g, s) along s, with the tangent grad_grad_x, is the gradient of grad_grad_x ·
// B(g, s) with respect to s.
#include "extensor/second_order.h"

#include "core/check.h"
#include "extensor/broadcasting.h"
#include "extensor/creation.h"
#include "extensor/dual.h"
#include "ops/chunks.h"
#include "ops/launch.h"
#include "ops/record_elementwise.h"

namespace extensor {

namespace {

using detail::message;
using expression::Dual;
using expression::Value;
using ops::check_float;

void check_gradient(const char* operation, const char* argument, const Tensor& gradient,
                    const char* of, const Shape& expected) {
  check_float(operation, argument, gradient);
  if (gradient.shape() == expected) return;
  throw ShapeError(message(operation, ": ", argument, " is ", gradient.shape(), ", must be ", of,
                           "'s shape, ", expected));
}

// ---- one input

// `of_grad_output` is backward(grad_grad_x, saved), which has run its checks.
std::pair<Tensor, Tensor> unary_double_backward(ops::ElementwiseOp op, const char* operation,
                                                const Tensor& of_grad_output,
                                                const Tensor& grad_grad_x,
                                                const Tensor& grad_output, const Tensor& saved,
                                                double first = 0, double second = 0) {
  const double parameters[] = {first, second};
  return {of_grad_output.to(grad_output.dtype()),
          ops::second_gradient(*ops::row_role(op).unary, operation, parameters, grad_grad_x,
                               grad_output, saved)};
}

void check_unary(const char* operation, const Tensor& grad_grad_x, const Tensor& grad_output,
                 const Tensor& saved) {
  check_float(operation, "the saved tensor", saved);
  ops::check_grad_output(operation, grad_output, saved.shape());
  check_gradient(operation, "grad_grad_x", grad_grad_x, "the saved tensor", saved.shape());
}

// ---- two inputs

DoubleGradients binary_double_backward(ops::ElementwiseOp op, const char* operation,
                                       const Tensor& grad_grad_a, const Tensor& grad_grad_b,
                                       const Tensor& grad_output, const Tensor& a, const Tensor& b,
                                       double eps = default_eps) {
  check_float(operation, "a", a);
  check_float(operation, "b", b);
  const ops::Source operands[] = {a, b};
  const Shape shape = ops::broadcast_inputs(operation, operands);
  ops::check_grad_output(operation, grad_output, shape);
  if (!(eps >= 0)) throw ValueError(message(operation, ": eps is ", eps, ", must be 0 or more"));
  DType wide = promote_types(grad_output.dtype(), promote_types(a.dtype(), b.dtype()));
  if (grad_grad_a.defined()) {
    check_gradient(operation, "grad_grad_a", grad_grad_a, "a", a.shape());
    wide = promote_types(wide, grad_grad_a.dtype());
  }
  if (grad_grad_b.defined()) {
    check_gradient(operation, "grad_grad_b", grad_grad_b, "b", b.shape());
    wide = promote_types(wide, grad_grad_b.dtype());
  }
  const DType compute = ops::compute_dtype(wide);
  const Tensor inputs[] = {grad_grad_a, grad_grad_b, grad_output, a, b};
  const DType outputs[] = {compute, compute, compute};
  const ops::ChunkedCall call{operation, shape, inputs, outputs, compute};
  std::vector<Tensor> results =
      ops::evaluate_in_chunks(call, [&](std::span<const Value> in, std::span<Value> out) {
        const Dual g(in[2]), a_only(in[3]), b_only(in[4]);
        out[0] = out[1] = out[2] = 0;
        const auto add = [](Value& sum, const Value& term) {
          sum = sum.is_zero() ? term : term.is_zero() ? sum : sum + term;
        };
        const auto& rows = ops::row_role(op).binary->expressions;
        for (int k = 0; k < 2; ++k) {
          const Value& direction = in[static_cast<std::size_t>(k)];
          if (direction.is_zero()) continue;
          add(out[0], rows[k](&eps, Dual(direction), a_only, b_only).value());
          add(out[1], rows[k](&eps, g, Dual(in[3], direction), b_only).derivative());
          add(out[2], rows[k](&eps, g, a_only, Dual(in[4], direction)).derivative());
        }
      });
  return {results[0].to(grad_output.dtype()), ops::fitted_to(results[1], a.shape(), a.dtype()),
          ops::fitted_to(results[2], b.shape(), b.dtype())};
}

// For rows whose backward only scales grad_output.
void check_linear(const char* operation, const Tensor& grad_grad_a, const Tensor& grad_grad_b,
                  const Shape& a_shape, const Shape& b_shape) {
  if (!are_shapes_broadcastable(a_shape, b_shape)) {
    throw ShapeError(message(operation, ": shapes do not broadcast: ", a_shape, " and ", b_shape));
  }
  if (!grad_grad_a.defined() && !grad_grad_b.defined()) {
    throw ValueError(message(operation, ": neither grad_grad_a nor grad_grad_b is defined"));
  }
  if (grad_grad_a.defined()) check_gradient(operation, "grad_grad_a", grad_grad_a, "a", a_shape);
  if (grad_grad_b.defined()) check_gradient(operation, "grad_grad_b", grad_grad_b, "b", b_shape);
}

}  // namespace

// ---- the rows

// clang-format off
#define EXTENSOR_DEFINE(name, PARAMETERS, BACKWARD, EVALUATE)                                      \
  std::pair<Tensor, Tensor> name##_double_backward(const Tensor& grad_grad_x,                      \
                                                   const Tensor& grad_output, const Tensor& saved PARAMETERS) { \
    constexpr const char* operation = #name "_double_backward";                                    \
    check_unary(operation, grad_grad_x, grad_output, saved);                                       \
    return unary_double_backward(ops::ElementwiseOp::name, operation,                              \
                                 name##_backward(grad_grad_x, saved BACKWARD), grad_grad_x,        \
                                 grad_output, saved EVALUATE);                                     \
  }
#define EXTENSOR_COMMA ,
#define UNARY(name, ...) EXTENSOR_DEFINE(name, , , )
#define UNARY_EPS(name, ...)                                                                       \
  EXTENSOR_DEFINE(name, EXTENSOR_COMMA StrictDouble eps, EXTENSOR_COMMA eps,                             \
                  EXTENSOR_COMMA eps)
#define UNARY_1(name, p, ...) \
  EXTENSOR_DEFINE(name, EXTENSOR_COMMA StrictDouble p, EXTENSOR_COMMA p, EXTENSOR_COMMA p)
#define UNARY_2(name, p, p_default, q, ...)                                                        \
  EXTENSOR_DEFINE(name, EXTENSOR_COMMA StrictDouble p EXTENSOR_COMMA StrictDouble q,                           \
                  EXTENSOR_COMMA p EXTENSOR_COMMA q, EXTENSOR_COMMA p EXTENSOR_COMMA q)
#define UNARY_2_NUMERIC(name, p, q, ...)                                                           \
  EXTENSOR_DEFINE(name, EXTENSOR_COMMA const Scalar& p EXTENSOR_COMMA const Scalar& q,             \
                  EXTENSOR_COMMA p EXTENSOR_COMMA q,                                               \
                  EXTENSOR_COMMA p.as_double() EXTENSOR_COMMA q.as_double())
#include "extensor/tables/unary.def"

#define EXTENSOR_BINARY_DEFINE(name, PARAMETERS, EVALUATE)                                         \
  DoubleGradients name##_double_backward(const Tensor& grad_grad_a, const Tensor& grad_grad_b,     \
                                         const Tensor& grad_output, const Tensor& a,               \
                                         const Tensor& b PARAMETERS) {                             \
    return binary_double_backward(ops::ElementwiseOp::name, #name "_double_backward",              \
                                  grad_grad_a, grad_grad_b, grad_output, a, b EVALUATE); \
  }
#define BINARY(name, ...) EXTENSOR_BINARY_DEFINE(name, , )
#define BINARY_EPS(name, ...) EXTENSOR_BINARY_DEFINE(name, EXTENSOR_COMMA StrictDouble eps, EXTENSOR_COMMA eps)
#define BINARY_LINEAR(name, lo, hi, kinks, forward, gradient_a, gradient_b)                        \
  Tensor name##_double_backward(const Tensor& grad_grad_a, const Tensor& grad_grad_b,              \
                                const Shape& a_shape, const Shape& b_shape) {                      \
    check_linear(#name "_double_backward", grad_grad_a, grad_grad_b, a_shape, b_shape);            \
    const Shape shape = broadcast_shapes(a_shape, b_shape);                                        \
    const auto from_a = [](const Tensor& g) { return gradient_a; };                                \
    const auto from_b = [](const Tensor& g) { return gradient_b; };                                \
    if (!grad_grad_b.defined()) return broadcast_to(from_a(grad_grad_a), shape).clone();           \
    if (!grad_grad_a.defined()) return broadcast_to(from_b(grad_grad_b), shape).clone();           \
    return from_a(grad_grad_a) + from_b(grad_grad_b);                                              \
  }
#include "extensor/tables/binary.def"
// clang-format on

// ---- functions without a row

std::pair<Tensor, Tensor> gelu_double_backward(const Tensor& grad_grad_x, const Tensor& grad_output,
                                               const Tensor& x, StrictBool approximate) {
  return approximate ? gelu_tanh_double_backward(grad_grad_x, grad_output, x)
                     : gelu_double_backward(grad_grad_x, grad_output, x);
}

DoubleGradients fma_double_backward(const Tensor& grad_grad_a, const Tensor& grad_grad_b,
                                    const Tensor& grad_grad_c, const Tensor& grad_output,
                                    const Tensor& a, const Tensor& b) {
  // The product may be smaller than the result, because c broadcasts too.
  const ops::Source operands[] = {a, b};
  const Shape product = ops::broadcast_inputs("fma_double_backward", operands);
  const Shape& shape = grad_output.shape();
  if (grad_grad_c.defined()) {
    check_float("fma_double_backward", "grad_grad_c", grad_grad_c);
    if (!are_shapes_broadcastable(grad_grad_c.shape(), shape) ||
        !(broadcast_shapes(grad_grad_c.shape(), shape) == shape)) {
      throw ShapeError(message("fma_double_backward: grad_grad_c is ", grad_grad_c.shape(),
                               " and does not broadcast to grad_output's shape, ", shape));
    }
  }
  ops::check_float("fma_double_backward", "grad_output", grad_output);
  DoubleGradients gradients = multiply_double_backward(
      grad_grad_a, grad_grad_b, reduce_broadcast_dims(grad_output, product), a, b);
  Tensor of_grad_output = gradients.grad_output;
  if (grad_grad_c.defined()) of_grad_output = of_grad_output + grad_grad_c;
  gradients.grad_output = broadcast_to(of_grad_output.to(grad_output.dtype()), shape).contiguous();
  return gradients;
}

}  // namespace extensor
