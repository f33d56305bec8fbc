// Vector norms. The magnitudes are divided by the largest one (the smallest for p < 0) before they
// are raised to a power, so that no intermediate value overflows or underflows.
#include <cmath>
#include <limits>

#include "backend/backend.h"
#include "core/check.h"
#include "core/make_tensor.h"
#include "extensor/creation.h"
#include "extensor/reduction.h"
#include "ops/gradient_eps.h"
#include "ops/launch.h"
#include "ops/optimizer_rule.h"
#include "ops/reduced_shape.h"
#include "ops/registry.h"
#include "ops/summed_row.h"

namespace extensor {

namespace {

using detail::message;
using namespace ops;

void check_order(const char* operation, double p) {
  if (p == p) return;
  throw ValueError(message(operation, ": p is ", p, ", must be a number or an infinity"));
}

void check_has_norm(const char* operation, const Tensor& x, double p, const ReducedAxes& axes) {
  if ((p >= 0 && std::isfinite(p)) || axes.count(x.shape()) != 0) return;
  throw ValueError(
      message(operation, ": x is ", x.shape(),
              " and the reduced axes have no elements, which have no norm of p = ", p));
}

// x is float64; the reduced axes are kept.
Tensor scaled_norm(const Tensor& x, double p, const Axes& axes) {
  const Tensor magnitude = abs(x);
  Tensor extreme = p > 0 ? max_reduce(magnitude, axes, true) : min_reduce(magnitude, axes, true);
  if (std::isinf(p)) return extreme;
  // 0, ∞ and NaN cannot be a scale; without scaling, the sum yields the right norm for them.
  const Tensor usable = greater(extreme, 0) & isfinite(extreme);
  const Tensor scale = where(usable, extreme, ones({}, {DType::float64, cpu_device}));
  const Tensor ratio = divide(magnitude, scale);
  const Tensor total = sum(p == 2 ? square(ratio) : power(ratio, p), axes, true);
  return multiply(scale, p == 2 ? sqrt(total) : power(total, 1 / p));
}

// Computes in float32 or float64; the reduced axes are kept.
Tensor wide_norm(const Tensor& x, double p, const Axes& axes, const ReducedAxes& reduced) {
  const DType dtype = is_floating_point(x.dtype()) ? x.dtype() : default_float;
  const bool sums_wide = dtype != DType::float64 && backend::backend_for(x.device()).sums_wide;
  if (sums_wide && dtype == x.dtype() && x.is_contiguous() && x.numel() != 0 &&
      reduced.count(x.shape()) == x.numel() &&
      (p == 1 || p == 2 || p == std::numeric_limits<double>::infinity())) {
    const Tensor all = gradient_norm("norm", {&x, 1}, p);  // reads x once
    return all.to(compute_dtype(dtype)).reshape(reduced.shape(x.shape(), true));
  }
  const Tensor wide = x.to(compute_dtype(dtype));
  if (p == 0) return count_nonzero(wide, axes, true).to(wide.dtype());
  if (reduced.count(x.shape()) == 0 || x.numel() == 0) {
    return zeros(reduced.shape(x.shape(), true), {wide.dtype(), wide.device()});
  }
  const auto sum_of = [&](ElementwiseOp op, DType sum_dtype) {
    const Source input[] = {wide};
    return evaluate_summed(op, "norm", sum_dtype, sum_dtype, input, reduced.shape(x.shape(), true));
  };
  if (p == 1) return sum_of(ElementwiseOp::abs, wide.dtype());
  if (p == 2) {
    const bool single = wide.dtype() == DType::float32;
    // Squares of float32 are always in the range of float64.
    if (sums_wide) {
      return sqrt(sum_of(ElementwiseOp::square, DType::float64)).to(wide.dtype());
    }
    // Sums in the usual range need no scaling.
    const Tensor total = sum_of(ElementwiseOp::square, wide.dtype());
    const double lowest = single ? 1e-30 : 1e-280, highest = single ? 1e38 : 1e308;
    const Tensor usual = greater_equal(total, lowest) & less_equal(total, highest);
    // Reading whether all sums are in range would block on another device, so it computes both.
    const bool waits = wide.device() != cpu_device;
    if (!waits && all(usual).item<bool>()) return sqrt(total);
    const Tensor scaled = scaled_norm(wide.to(DType::float64), p, axes).to(wide.dtype());
    return waits ? where(all(usual), sqrt(total), scaled) : scaled;
  }
  return scaled_norm(wide.to(DType::float64), p, axes).to(wide.dtype());
}

// The norm, but at least eps.
Tensor at_least(const Tensor& norm, double eps) {
  return where(less(norm, eps), full({}, eps, {norm.dtype(), cpu_device}), norm);
}

// `values`, with 0 where x is 0.
Tensor zero_where_zero(const Tensor& x, const Tensor& values) {
  return where(equal(x, 0), zeros({}, {values.dtype(), cpu_device}), values);
}

// (|x| / y)^(p − 2) for p ≠ 2. For p < 2 it is infinite at x = 0, where 0 is used instead.
Tensor ratio_to_p_minus_2(const Tensor& x, const Tensor& y, double p) {
  if (std::fmod(p, 2) == 0 && p > 2) return power(square(divide(x, y)), p / 2 - 1);
  const Tensor nonzero = where(equal(x, 0), ones({}, {x.dtype(), cpu_device}), abs(x));
  return zero_where_zero(x, power(divide(nonzero, y), p - 2));
}

struct NormAttributes {
  double p;
  Axes axes;
  bool keepdims;
};

Tensor norm_forward(const Run& run, const NormAttributes& attributes, const Tensor& x) {
  const auto& [p, axes, keepdims] = attributes;
  const ReducedAxes reduced(run.name(), axes, x.ndim());
  check_order(run.name(), p);
  check_has_norm(run.name(), x, p, reduced);
  const DType dtype = is_floating_point(x.dtype()) ? x.dtype() : default_float;
  return wide_norm(x, p, axes, reduced).to(dtype).reshape(reduced.shape(x.shape(), keepdims));
}

Gradients norm_gradient(const GradientCall& call, const NormAttributes& attributes) {
  return norm_backward(call.grad(), call.input(0), attributes.p, attributes.axes, gradient_eps());
}

struct NormBackwardAttributes {
  double p;
  Axes axes;
  double eps;
};

Tensor norm_backward_forward(const Run& run, const NormBackwardAttributes& attributes,
                             const Tensor& grad_output, const Tensor& x) {
  const auto& [p, axes, eps] = attributes;
  check_float(run.name(), "x", x);
  const ReducedAxes reduced(run.name(), axes, x.ndim());
  check_order(run.name(), p);
  const Tensor g = gradient_with_kept_axes(run.name(), grad_output, x.shape(), reduced);
  check_has_norm(run.name(), x, p, reduced);
  if (p == 0 || x.numel() == 0) return zeros_like(x);
  if (p == 1) return multiply(sign(x), g).to(x.dtype());
  if (p == 2) {
    const Tensor wide = x.to(compute_dtype(x.dtype()));
    const Tensor y = wide_norm(wide, p, axes, reduced);
    const Tensor gradient = multiply(divide(wide, at_least(y, eps)), g);
    return (eps > 0 ? gradient : zero_where_zero(wide, gradient)).to(x.dtype());
  }
  const Tensor wide = x.to(DType::float64);
  const Tensor signed_g = multiply(sign(wide), g.to(DType::float64));
  const Tensor magnitude = abs(wide), y = wide_norm(wide, p, axes, reduced);
  if (std::isinf(p)) {
    const Tensor hit = equal(magnitude, y) | (isnan(magnitude) & isnan(y));
    const Tensor share = divide(signed_g, count_nonzero(hit, axes, true).to(DType::float64));
    return where(hit, share, zeros({}, {DType::float64, cpu_device})).to(x.dtype());
  }
  const Tensor slope = power(divide(magnitude, at_least(y, eps)), p - 1);
  return zero_where_zero(wide, multiply(signed_g, slope)).to(x.dtype());
}

// With u = sign(x) · (|x| / y)^(p − 1), the gradient is g · u, and the derivative of u is (p − 1) /
// y · (diag((|x| / y)^(p − 2)) − u · uᵀ). If y is floored, it is a constant, and the second term
// vanishes.
Gradients norm_backward_gradient(const GradientCall& call,
                                 const NormBackwardAttributes& attributes) {
  const auto& [p, axes, eps] = attributes;
  const EpsScope ieee(0);  // the floor applies to the norm only
  const Tensor& x = call.input(1);
  const ReducedAxes reduced(call.name(), axes, x.ndim());
  const Tensor wide = x.to(DType::float64), v = call.grad().to(DType::float64);
  const Tensor one =
      detail::make_empty(call.name(), reduced.shape(x.shape(), true), DType::float64, x.device())
          .fill(1);
  const Tensor unit = norm_backward(one, wide, p, axes, eps);
  const Tensor along = sum(multiply(v, unit), axes, true);
  const Tensor of_grad_output = along.reshape(call.shape(0));
  if (!call.needs(1) || p == 0 || p == 1 || std::isinf(p) || x.numel() == 0) {
    return {of_grad_output, zeros_like(x)};
  }
  const Tensor g = gradient_with_kept_axes(call.name(), call.input(0), x.shape(), reduced);
  const Tensor exact = norm(wide, p, axes, true), y = at_least(exact, eps);
  const Tensor own = p == 2 ? v : multiply(v, ratio_to_p_minus_2(wide, y, p));
  const Tensor through_norm =
      where(less(exact, eps), zeros({}, {DType::float64, cpu_device}), multiply(unit, along));
  const Tensor change = multiply(divide(subtract(own, through_norm), y), p - 1);
  return {of_grad_output, multiply(change, g)};
}

constexpr auto norm_op =
    define<norm_forward, norm_gradient>({.name = "norm", .inputs = {"x"}, .reads = {input(0)}});
constexpr auto norm_backward_op = define<norm_backward_forward, norm_backward_gradient>(
    {.name = "norm_backward",
     .inputs = {"grad_output", "x"},
     .reads = {shape(0) | input(1), shape(0) | input(0) | input(1)}});

}  // namespace

Tensor norm(const Tensor& x, StrictDouble p, const Axes& axes, StrictBool keepdims) {
  if (is_complex(x.dtype())) return dispatch(norm_op, {p, axes, keepdims}, abs(x));
  return dispatch(norm_op, {p, axes, keepdims}, x);
}
Tensor norm_backward(const Tensor& grad_output, const Tensor& x, StrictDouble p, const Axes& axes,
                     StrictDouble eps) {
  if (is_complex(x.dtype())) {
    check_real("norm_backward", "grad_output", grad_output);
    const Tensor of_magnitudes = norm_backward(grad_output, abs(x), p, axes, eps);
    return multiply(of_magnitudes, sign(x)).to(x.dtype());
  }
  return dispatch(norm_backward_op, {p, axes, eps}, grad_output, x);
}

constinit const OpList ops::norm_ops = listed<norm_op, norm_backward_op>;

}  // namespace extensor
