#include "extensor/dropout.h"

#include "backend/backend.h"
#include "core/check.h"
#include "core/graph.h"
#include "core/make_tensor.h"
#include "extensor/creation.h"
#include "ops/launch.h"

namespace extensor {

namespace {

void check_probability(const char* operation, double p) {
  if (p >= 0 && p <= 1) return;
  throw ValueError(detail::message(operation, ": p is ", p, ", must be in [0, 1]"));
}

// x with the mask's elements dropped and the others scaled: the forward, and its own backward.
Tensor masked(const char* operation, const Tensor& x, const DropoutMask& mask) {
  if (mask.p == 0) return x;
  if (mask.p == 1) return zeros_like(x);
  Tensor result = detail::make_empty(operation, x.shape(), x.dtype(), x.device());
  const Tensor dense = x.contiguous();
  backend::DropoutCall call{};
  call.dtype = x.dtype();
  call.numel = x.numel();
  call.x = dense.impl().data;
  call.out = result.impl().data;
  call.seed = mask.draws.seed;
  call.stream = mask.draws.stream;
  call.offset = mask.draws.offset;
  call.p = mask.p;
  call.scale = 1 / (1 - mask.p);
  backend::backend_for(x.device()).dropout(call);
  return result;
}

}  // namespace

DropoutResult dropout(const Tensor& x, StrictDouble p, StrictBool training, Generator& generator) {
  if (detail::records(x)) {
    DropoutResult result = detail::unrecorded([&] { return dropout(x, p, training, generator); });
    result.output =
        detail::record("dropout", {x}, std::move(result.output),
                       [mask = result.mask](const Tensor& g) { return dropout_backward(g, mask); });
    return result;
  }
  check_probability("dropout", p);
  ops::check_float("dropout", "x", x);
  DropoutMask mask{{}, x.shape(), training ? p : StrictDouble(0)};
  if (mask.p > 0 && mask.p < 1) {
    mask.draws = generator.reserve(static_cast<std::uint64_t>(x.numel()));
  }
  return {masked("dropout", x, mask), mask};
}

Tensor dropout_backward(const Tensor& grad_output, const DropoutMask& mask) {
  if (detail::records(grad_output)) {
    return detail::recorded_linear(
        "dropout_backward", [&] { return dropout_backward(grad_output, mask); },
        [mask](const Tensor& v) { return dropout_backward(v, mask); }, grad_output);
  }
  check_probability("dropout_backward", mask.p);
  ops::check_grad_output("dropout_backward", grad_output, mask.shape);
  return masked("dropout_backward", grad_output, mask);
}

}  // namespace extensor
