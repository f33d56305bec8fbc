#include "extensor/linear.h"

#include "backend/backend.h"
#include "core/check.h"
#include "core/graph.h"
#include "extensor/elementwise.h"
#include "extensor/manipulation.h"
#include "extensor/matrix.h"
#include "extensor/reduction.h"
#include "ops/launch.h"
#include "ops/linear_support.h"
#include "ops/registry.h"

namespace extensor {

using detail::message;
using namespace ops;

Shape ops::linear_shape(const char* operation, const Tensor& x, const Tensor& weight,
                        const Tensor& bias) {
  check_float(operation, "x", x);
  check_float(operation, "weight", weight);
  if (weight.ndim() != 2) {
    throw ShapeError(message(operation, ": weight is ", weight.shape(), ", must be [out, in]"));
  }
  if (x.ndim() == 0 || x.size(-1) != weight.size(1)) {
    throw ShapeError(message(operation, ": x is ", x.shape(), ", must be [..., ", weight.size(1),
                             "] for a weight of ", weight.shape()));
  }
  if (bias.defined()) {
    check_float(operation, "bias", bias);
    if (!(bias.shape() == Shape{weight.size(0)})) {
      throw ShapeError(message(operation, ": bias is ", bias.shape(), ", must be [", weight.size(0),
                               "] for a weight of ", weight.shape()));
    }
  }
  const Source operands[] = {x, weight, bias.defined() ? bias : x};
  common_device(operation, operands);
  Shape shape = x.shape();
  shape.back() = weight.size(0);
  return shape;
}

// Computes the number of rows, because −1 is ambiguous if another dimension is 0.
Tensor ops::as_matrix(const Tensor& x) {
  if (x.ndim() == 2) return x;
  std::int64_t rows = 1;
  for (std::int64_t d = 0; d + 1 < x.ndim(); ++d) rows *= x.size(d);
  return x.reshape({rows, x.size(-1)});
}

namespace {

Tensor widened(const Tensor& x) { return x.to(compute_dtype(x.dtype())); }

// The gradients of y = x·wᵀ + bias, each from only the tensors it needs.
Tensor gradient_of_x(const Tensor& g, const Tensor& weight, const Shape& shape) {
  const Tensor gradient = matmul(as_matrix(g), weight);
  return shape.size() == 2 ? gradient : gradient.reshape(shape);
}
Tensor gradient_of_weight(const Tensor& g, const Tensor& x) {
  return matmul(as_matrix(g).transpose(), as_matrix(x));
}
Tensor gradient_of_bias(const Tensor& g) { return sum(as_matrix(g), 0); }

bool reads_result(Activation activation) {
  return activation == Activation::relu || activation == Activation::sigmoid ||
         activation == Activation::tanh;
}

// The gradient of z for y = activation(z), computed from y if reads_result, otherwise from z.
Tensor activation_backward(const Tensor& g, const Tensor& saved, Activation activation) {
  switch (activation) {
    case Activation::none:
      return g;
    case Activation::relu:
      return relu_backward(g, saved);  // y > 0 exactly where z > 0
    case Activation::sigmoid:
      return sigmoid_backward(g, saved);
    case Activation::tanh:
      return tanh_backward(g, saved);
    case Activation::gelu:
      return gelu_backward(g, saved);
    case Activation::silu:
      return silu_backward(g, saved);
    case Activation::gelu_tanh:
      return gelu_tanh_backward(g, saved);
  }
  __builtin_unreachable();
}

struct LinearAttributes {
  Activation activation;
};

Tensor linear_forward(const Run& run, const LinearAttributes& attributes, const Tensor& x,
                      const Tensor& weight, const Tensor& bias) {
  const Shape shape = linear_shape(run.name(), x, weight, bias);
  DType dtype = promote_types(x.dtype(), weight.dtype());
  if (bias.defined()) dtype = promote_types(dtype, bias.dtype());
  Tensor result = run.empty(shape, dtype);
  if (result.numel() == 0) return result;
  const Tensor rows = as_matrix(x.to(dtype)), w = weight.to(dtype);
  const Tensor b = bias.defined() ? bias.to(dtype).contiguous() : Tensor();
  const std::int64_t transposed[] = {w.strides()[1], w.strides()[0]};
  backend::MatmulCall call{};
  call.dtype = dtype;
  call.m = rows.size(0);
  call.n = w.size(0);
  call.k = w.size(1);
  call.a = {rows.impl().data, dtype, rows.strides().data()};
  call.b = {w.impl().data, dtype, transposed};
  call.c = {result.impl().data, dtype, nullptr};
  call.batch = 1;
  call.bias = b.defined() ? detail::dense_data(b) : nullptr;
  call.activation = attributes.activation;
  run.kernels().matmul(call);
  return result;
}

Gradients linear_gradient(const GradientCall& call, const LinearAttributes& attributes) {
  const Activation activation = attributes.activation;
  const Tensor g = activation == Activation::none
                       ? call.grad()
                       : activation_backward(call.grad(), call.result(), activation);
  Gradients gradients(3);
  if (call.needs(0)) gradients[0] = gradient_of_x(g, call.input(1), call.shape(0));
  if (call.needs(1)) gradients[1] = gradient_of_weight(g, call.input(0));
  if (call.needs(2)) gradients[2] = gradient_of_bias(g);
  return gradients;
}

Reads linear_reads(const LinearAttributes& attributes, std::size_t k) {
  const Reads result_read = attributes.activation == Activation::none ? nothing : result();
  return result_read | (k == 0 ? input(1) | shape(0) : k == 1 ? input(0) : nothing);
}

constexpr auto linear_op = define<linear_forward, linear_gradient, linear_reads>(
    {.name = "linear", .inputs = {"x", "weight", "bias"}, .cast = Cast::down, .optional = 1 << 2});

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation) {
  detail::check_option("linear", "activation", activation, Activation::gelu_tanh);
  // The gradients of these activations read z, which the fused kernel does not keep.
  if (!reads_result(activation) && activation != Activation::none &&
      detail::records(x, weight, bias)) {
    const Tensor z = linear(x, weight, bias);
    return activation == Activation::gelu   ? gelu(z)
           : activation == Activation::silu ? silu(z)
                                            : gelu_tanh(z);
  }
  return dispatch(linear_op, {activation}, x, weight, bias);
}

LinearGradients linear_backward(const Tensor& grad_output, const Tensor& x, const Tensor& weight,
                                StrictBool has_bias) {
  constexpr const char* operation = "linear_backward";
  check_grad_output(operation, grad_output, linear_shape(operation, x, weight, {}));
  LinearGradients gradients;
  gradients.x = gradient_of_x(grad_output, weight, x.shape()).to(x.dtype());
  gradients.weight = gradient_of_weight(grad_output, x).to(weight.dtype());
  if (has_bias) gradients.bias = gradient_of_bias(grad_output).to(weight.dtype());
  return gradients;
}

LinearGradients linear_backward(const Tensor& grad_output, const Tensor& x, const Tensor& weight,
                                const Tensor& bias, Activation activation) {
  constexpr const char* operation = "linear_backward";
  detail::check_option(operation, "activation", activation, Activation::gelu_tanh);
  check_grad_output(operation, grad_output, linear_shape(operation, x, weight, bias));
  // Widen before the activation, so that half dtypes are rounded only in the gradients.
  Tensor g = grad_output;
  if (activation != Activation::none) {
    const Activation kept = reads_result(activation) ? activation : Activation::none;
    g = activation_backward(widened(grad_output), linear(widened(x), weight, bias, kept),
                            activation);
  }
  LinearGradients gradients = linear_backward(g, x, weight, bias.defined());
  if (bias.defined()) gradients.bias = gradients.bias.to(bias.dtype());
  return gradients;
}

// ---- gated linear units

namespace {

struct Halves {
  std::int64_t axis, length;
  Tensor values, gates;
};

Halves split_gates(const char* operation, const Tensor& x, std::int64_t axis) {
  check_float(operation, "x", x);
  const std::int64_t at = detail::normalize_axis(operation, axis, x.ndim());
  if (x.size(at) % 2 != 0) {
    throw ShapeError(
        message(operation, ": axis ", at, " of x, ", x.shape(), ", must have an even length"));
  }
  const std::int64_t length = x.size(at) / 2;
  return {at, length, x.slice(at, 0, length), x.slice(at, length)};
}

Tensor glu_forward(const Run& run, const AxisAttribute& attributes, const Tensor& x) {
  const Halves halves = split_gates(run.name(), x, attributes.axis);
  return multiply(halves.values, sigmoid(widened(halves.gates))).to(x.dtype());
}

Gradients glu_gradient(const GradientCall& call, const AxisAttribute& attributes) {
  return glu_backward(call.grad(), call.input(0), attributes.axis);
}

Tensor glu_backward_forward(const Run& run, const AxisAttribute& attributes,
                            const Tensor& grad_output, const Tensor& x) {
  const Halves halves = split_gates(run.name(), x, attributes.axis);
  check_grad_output(run.name(), grad_output, halves.values.shape());
  const Tensor gates = sigmoid(widened(halves.gates)), g = widened(grad_output);
  Tensor gradient = run.empty(x.shape(), x.dtype());
  gradient.slice(halves.axis, 0, halves.length).copy_from(multiply(g, gates));
  gradient.slice(halves.axis, halves.length)
      .copy_from(sigmoid_backward(multiply(g, halves.values), gates));
  return gradient;
}

// With s = sigmoid(b), the gradients of the halves are g·s and g·a·s′, where s′ = s (1 − s) and s″
// = s′ (1 − 2 s).
Gradients glu_backward_gradient(const GradientCall& call, const AxisAttribute& attributes) {
  const Halves halves = split_gates(call.name(), call.input(1), attributes.axis);
  const Halves given = split_gates(call.name(), call.grad(), attributes.axis);
  const Tensor a = widened(halves.values), s = sigmoid(widened(halves.gates));
  const Tensor u = widened(given.values), v = widened(given.gates);
  Gradients gradients(2);
  if (call.needs(0)) gradients[0] = u * s + sigmoid_backward(v * a, s);
  if (call.needs(1)) {
    const Tensor g = widened(call.input(0));
    const Tensor of_a = sigmoid_backward(g * v, s);
    const Tensor of_b = sigmoid_backward(g * (u + v * a * (1 - 2 * s)), s);
    gradients[1] = concatenate({of_a, of_b}, halves.axis);
  }
  return gradients;
}

constexpr auto glu_op =
    define<glu_forward, glu_gradient>({.name = "glu", .inputs = {"x"}, .reads = {input(0)}});
constexpr auto glu_backward_op =
    define<glu_backward_forward, glu_backward_gradient>({.name = "glu_backward",
                                                         .inputs = {"grad_output", "x"},
                                                         .reads = {input(1), input(0) | input(1)}});

}  // namespace

Tensor glu(const Tensor& x, StrictInt axis) { return dispatch(glu_op, {axis}, x); }
Tensor glu_backward(const Tensor& grad_output, const Tensor& x, StrictInt axis) {
  return dispatch(glu_backward_op, {axis}, grad_output, x);
}

constinit const OpList ops::linear_ops = listed<linear_op, glu_op, glu_backward_op>;

}  // namespace extensor
