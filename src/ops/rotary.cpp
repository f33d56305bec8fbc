#include "extensor/rotary.h"

#include <cmath>

#include "core/check.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/manipulation.h"
#include "extensor/matrix.h"
#include "extensor/user_ops.h"
#include "ops/launch.h"
#include "ops/registry.h"

namespace extensor {

namespace {

using detail::message;
using namespace ops;

void check_arguments(const char* operation, const char* argument, const Tensor& x,
                     const RotaryOptions& options) {
  check_float(operation, argument, x);
  if (x.ndim() < 2 || x.size(-1) % 2 != 0) {
    throw ShapeError(message(operation, ": ", argument, " is ", x.shape(),
                             ", must be [..., length, width] with an even width"));
  }
  if (!(options.base > 0) || !std::isfinite(options.base)) {
    throw ValueError(
        message(operation, ": base is ", options.base, ", must be finite and above 0"));
  }
  std::int64_t last;
  if (options.offset < 0 || __builtin_add_overflow(options.offset, x.size(-2), &last)) {
    throw ValueError(message(operation, ": offset is ", options.offset, ", must be 0 or more"));
  }
}

// The angles of all positions and pairs, [length, width / 2], in float64.
Tensor angles(const Tensor& x, const RotaryOptions& options) {
  const std::int64_t length = x.size(-2), pairs = x.size(-1) / 2;
  const TensorOptions wide{DType::float64, x.device()};
  const Tensor positions = arange(options.offset, options.offset + length, 1, wide);
  const Tensor rates =
      exp(arange(pairs, wide) * (-std::log(options.base) / static_cast<double>(pairs)));
  return outer(positions, rates);
}

// (a, b) turned by an angle; `direction` is 1 or −1. One pass over memory makes the result from
// each element of x and its partner. On the CPU, the partners of halves are copied, so that rows
// are as long as a sequence; otherwise they are a view of x, whose axis of pairs is reversed.
Tensor rotated(const char* operation, const char* argument, const RotaryOptions& options,
               const Tensor& x, double direction) {
  check_arguments(operation, argument, x, options);
  if (x.numel() == 0) return x.clone();
  const DType compute = compute_dtype(x.dtype());
  const Tensor angle = angles(x, options);
  const std::int64_t length = x.size(-2), pairs = x.size(-1) / 2;
  const std::int64_t axis = options.interleaved ? -1 : -2;  // of the pairs
  const Tensor cosines = cos(angle).to(compute).unsqueeze(axis);
  const Tensor sines = (sin(angle) * direction).to(compute);
  if (!options.interleaved && x.device() == cpu_device) {
    const Tensor partners = concatenate({x.slice(-1, pairs, 2 * pairs), x.slice(-1, 0, pairs)}, -1);
    const Tensor cosine = cosines.squeeze(axis);
    Tensor result = x * concatenate({cosine, cosine}, -1);
    result += partners * concatenate({negative(sines), sines}, -1);
    return result.to(x.dtype());
  }
  const Tensor signed_sines = stack({negative(sines), sines}, axis);
  const Tensor paired =
      options.interleaved ? x.reshape({-1, length, pairs, 2}) : x.reshape({-1, length, 2, pairs});
  static const auto rotate = elementwise(
      "rotate", [](auto a, auto partner, auto c, auto s) { return a * c + partner * s; });
  return rotate(paired, paired.slice(axis, {}, {}, -1), cosines, signed_sines)
      .reshape(x.shape())
      .to(x.dtype());
}

Tensor rotary_forward(const Run& run, const RotaryOptions& options, const Tensor& x) {
  return rotated(run.name(), "x", options, x, 1);
}
Tensor rotary_backward_forward(const Run& run, const RotaryOptions& options,
                               const Tensor& grad_output) {
  return rotated(run.name(), "grad_output", options, grad_output, -1);
}
Gradients rotary_gradient(const GradientCall& call, const RotaryOptions& options) {
  return rotary_embedding_backward(call.grad(), options);
}
Gradients rotary_backward_gradient(const GradientCall& call, const RotaryOptions& options) {
  return rotary_embedding(call.grad(), options);
}

constexpr auto rotary_op =
    define<rotary_forward, rotary_gradient>({.name = "rotary_embedding", .inputs = {"x"}});
constexpr auto rotary_backward_op = define<rotary_backward_forward, rotary_backward_gradient>(
    {.name = "rotary_embedding_backward", .inputs = {"grad_output"}});

}  // namespace

Tensor rotary_embedding(const Tensor& x, const RotaryOptions& options) {
  return dispatch(rotary_op, options, x);
}
Tensor rotary_embedding_backward(const Tensor& grad_output, const RotaryOptions& options) {
  return dispatch(rotary_backward_op, options, grad_output);
}

constinit const OpList ops::rotary_ops = listed<rotary_op, rotary_backward_op>;

}  // namespace extensor
