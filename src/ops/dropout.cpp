#include "extensor/dropout.h"

#include "backend/backend.h"
#include "core/check.h"
#include "core/memory_layout.h"
#include "extensor/creation.h"
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

constinit const OpList ops::dropout_ops = listed<dropout_op, dropout_backward_op>;

}  // namespace extensor
