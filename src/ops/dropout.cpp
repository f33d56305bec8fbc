#include "extensor/dropout.h"

#include "backend/backend.h"
#include "core/check.h"
#include "core/memory_layout.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "ops/launch.h"
#include "ops/registry.h"

namespace extensor {

namespace {

using namespace ops;

void check_probability(const char* operation, double p) {
  if (p >= 0 && p <= 1) return;
  throw ValueError(detail::message(operation, ": p is ", p, ", must be in [0, 1]"));
}

// Zeroes the elements that the mask drops and scales the others. It is its own backward.
Tensor masked(const Run& run, const DropoutMask& mask, const Tensor& x) {
  if (mask.p == 0) return x;
  if (mask.p == 1) return zeros_like(x);
  Tensor result = run.empty(x.shape(), x.dtype());
  const Tensor dense = x.contiguous();
  backend::DropoutCall call{};
  call.dtype = x.dtype();
  call.numel = x.numel();
  call.x = detail::dense_data(dense);
  call.out = result.impl().data;
  call.seed = mask.draws.seed;
  call.stream = mask.draws.stream;
  call.offset = mask.draws.offset;
  call.p = mask.p;
  call.scale = 1 / (1 - mask.p);
  run.kernels().dropout(call);
  // Masks count elements in row-major order, so that they do not depend on the format.
  return result.to(detail::format_of(x));
}

Tensor masked_gradient(const Run& run, const DropoutMask& mask, const Tensor& grad_output) {
  check_probability(run.name(), mask.p);
  check_grad_output(run.name(), grad_output, mask.shape);
  return masked(run, mask, grad_output);
}

Gradients dropout_gradient(const GradientCall& call, const DropoutMask& mask) {
  return dropout_backward(call.grad(), mask);
}

constexpr auto dropout_op = define<masked, dropout_gradient>({.name = "dropout", .inputs = {"x"}});
constexpr auto dropout_backward_op = define<masked_gradient, dropout_gradient>(
    {.name = "dropout_backward", .inputs = {"grad_output"}});

}  // namespace

DropoutResult dropout(const Tensor& x, StrictDouble p, StrictBool training, Generator& generator) {
  check_probability("dropout", p);
  check_float("dropout", "x", x);
  DropoutMask mask{{}, x.shape(), training ? p : StrictDouble(0)};
  if (mask.p > 0 && mask.p < 1) {
    mask.draws = generator.reserve(static_cast<std::uint64_t>(x.numel()));
  }
  return {dispatch(dropout_op, mask, x), mask};
}

Tensor dropout_backward(const Tensor& grad_output, const DropoutMask& mask) {
  return dispatch(dropout_backward_op, mask, grad_output);
}

// ---- whole channels

namespace {

// x with each channel scaled by 0 or 1 / (1 − p).
Tensor with_channels_dropped(const DropoutMask& mask, const Tensor& x) {
  const DType wide = compute_dtype(x.dtype());  // halves are rounded once
  const Tensor factors = dropout_backward(ones(mask.shape, {wide, x.device()}), mask);
  return multiply(x, factors).to(x.dtype());
}

}  // namespace

DropoutResult dropout2d(const Tensor& x, StrictDouble p, StrictBool training,
                        Generator& generator) {
  check_probability("dropout2d", p);
  check_float("dropout2d", "x", x);
  if (x.ndim() < 3 || x.ndim() > 5) {
    throw ShapeError(detail::message("dropout2d: x is ", x.shape(),
                                     ", must have 3 to 5 dimensions [batch, channels, ...]"));
  }
  DropoutMask mask{{}, Shape(x.shape().size(), 1), training ? p : StrictDouble(0)};
  mask.shape[0] = x.size(0);
  mask.shape[1] = x.size(1);
  if (mask.p == 0) return {x, mask};
  if (mask.p < 1) {
    mask.draws = generator.reserve(static_cast<std::uint64_t>(x.size(0) * x.size(1)));
  }
  return {with_channels_dropped(mask, x), mask};
}

Tensor dropout2d_backward(const Tensor& grad_output, const DropoutMask& mask) {
  check_probability("dropout2d_backward", mask.p);
  Shape expected = mask.shape;
  for (std::size_t d = 2; d < expected.size() && d < grad_output.shape().size(); ++d) {
    expected[d] = grad_output.shape()[d];
  }
  check_grad_output("dropout2d_backward", grad_output, expected);
  if (mask.p == 0) return grad_output;
  return with_channels_dropped(mask, grad_output);
}

constinit const OpList ops::dropout_ops = listed<dropout_op, dropout_backward_op>;

}  // namespace extensor
