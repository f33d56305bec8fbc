// Elementwise functions composed of rows: where with numbers, clip with one bound or with tensors
// as bounds, and division with rounding.
#include <cmath>
#include <limits>

#include "core/check.h"
#include "core/visit.h"
#include "extensor/broadcasting.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "ops/launch.h"
#include "ops/scalar_range.h"

namespace extensor {

namespace {

using detail::message;
using ops::Source;

}  // namespace

// ---- where

namespace {

// Each operand is a tensor or a number that fits `dtype`.
Tensor chosen(const Tensor& condition, const Source& a, const Source& b, DType dtype) {
  if (condition.dtype() != DType::bool_) {
    throw DTypeError(message("where: condition is ", condition.dtype(), ", must be bool"));
  }
  const Source inputs[] = {condition, a, b};
  return ops::evaluate(ops::ElementwiseOp::where, "where", ops::compute_dtype(dtype), dtype,
                       inputs);
}

Source number_as(const Scalar& value, DType dtype) {
  ops::check_scalar_fits("where", value, dtype);
  return {value, dtype};
}

// The same for a complex number, which is a tensor of its own.
Tensor complex_as(const Scalar& value, DType dtype) {
  ops::check_scalar_fits("where", value, dtype);
  return ops::complex_number(value, dtype);
}

}  // namespace

Tensor where(const Tensor& condition, const Tensor& a, const Scalar& b) {
  const DType dtype = promote_with_scalar(a.dtype(), b);
  if (b.is_complex()) return chosen(condition, a, complex_as(b, dtype), dtype);
  return chosen(condition, a, number_as(b, dtype), dtype);
}

Tensor where(const Tensor& condition, const Scalar& a, const Tensor& b) {
  const DType dtype = promote_with_scalar(b.dtype(), a);
  if (a.is_complex()) return chosen(condition, complex_as(a, dtype), b, dtype);
  return chosen(condition, number_as(a, dtype), b, dtype);
}

Tensor where(const Tensor& condition, const Scalar& a, const Scalar& b) {
  const DType dtype = promote_types(a.default_dtype(), b.default_dtype(), "where");
  if (is_complex(dtype)) {
    return chosen(condition, complex_as(a, dtype), complex_as(b, dtype), dtype);
  }
  return chosen(condition, number_as(a, dtype), number_as(b, dtype), dtype);
}

// ---- clip

namespace {

// The lowest or the highest value of a dtype, which does not restrict it.
Scalar extreme(DType dtype, bool highest) {
  Scalar result = 0;
  detail::visit_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>) {
      result = highest ? std::numeric_limits<T>::max() : std::numeric_limits<T>::min();
    } else {
      result = highest ? std::numeric_limits<double>::infinity()
                       : -std::numeric_limits<double>::infinity();
    }
  });
  return result;
}

}  // namespace

Tensor clip(const Tensor& x, const ClipBounds& bounds) {
  const auto& [min, max] = bounds;
  if (!min && !max) throw ValueError("clip: neither min nor max is given (allowed: one or both)");
  const DType dtype = promote_with_scalar(x.dtype(), min ? *min : *max);
  return clip(x, min ? *min : extreme(dtype, false), max ? *max : extreme(dtype, true));
}

namespace {

// Where the bound replaces x: outside of it, or where it is NaN.
Tensor below(const Tensor& x, const Tensor& min) { return less(x, min) || isnan(min); }
Tensor above(const Tensor& x, const Tensor& max) { return greater(x, max) || isnan(max); }

void check_bounds_given(const char* operation, const Tensor& min, const Tensor& max) {
  if (min.defined() || max.defined()) return;
  throw ValueError(message(operation, ": neither min nor max is given (allowed: one or both)"));
}

}  // namespace

Tensor clip(const Tensor& x, const Tensor& min, const Tensor& max) {
  check_bounds_given("clip", min, max);
  const Tensor raised = min.defined() ? where(below(x, min), min, x) : x;
  return max.defined() ? where(above(raised, max), max, raised) : raised;
}

ClipGradients clip_backward(const Tensor& grad_output, const Tensor& x, const Tensor& min,
                            const Tensor& max) {
  constexpr const char* operation = "clip_backward";
  check_bounds_given(operation, min, max);
  ops::check_float(operation, "x", x);
  Shape shape = x.shape();
  for (const Tensor* bound : {&min, &max}) {
    if (bound->defined()) shape = broadcast_shapes(shape, bound->shape());
  }
  ops::check_grad_output(operation, grad_output, shape);
  const auto as = [](const Tensor& gradient, const Tensor& of) {
    return reduce_broadcast_dims(gradient, of.shape()).to(of.dtype());
  };
  ClipGradients gradients;
  Tensor g = grad_output;  // of the value that min has raised
  if (max.defined()) {
    const Tensor replaced = above(min.defined() ? where(below(x, min), min, x) : x, max);
    if (is_floating_point(max.dtype())) gradients.max = as(where(replaced, g, 0), max);
    g = where(replaced, 0, g);
  }
  if (min.defined()) {
    const Tensor replaced = below(x, min);
    if (is_floating_point(min.dtype())) gradients.min = as(where(replaced, g, 0), min);
    g = where(replaced, 0, g);
  }
  gradients.x = as(g, x);
  return gradients;
}

// ---- division with rounding

namespace {

bool is_floating(const Tensor& x) { return is_floating_point(x.dtype()); }
bool is_floating(const Scalar& x) { return x.is_floating(); }
Tensor is_negative(const Tensor& x) { return less(x, 0); }
Tensor is_negative(const Scalar& x) { return full({}, x.as_double() < 0, cpu_device); }

// Rounded towards 0. For integers: the floor, plus 1 where it is negative and inexact.
template <class A, class B>
Tensor truncated(const A& a, const B& b) {
  if (is_floating(a) || is_floating(b)) return trunc(divide(a, b));
  const Tensor floor = floor_divide(a, b);
  const Tensor is_inexact = not_equal(modulo(a, b), 0);
  const Tensor is_below = logical_xor(is_negative(a), is_negative(b));
  return where(is_inexact && is_below, add(floor, 1), floor);
}

template <class A, class B>
Tensor rounded(const A& a, const B& b, Rounding rounding) {
  detail::check_option("divide", "rounding", rounding, Rounding::floor);
  if (rounding == Rounding::none) return divide(a, b);
  return rounding == Rounding::floor ? floor_divide(a, b) : truncated(a, b);
}

}  // namespace

Tensor divide(const Tensor& a, const Tensor& b, Rounding rounding) {
  return rounded(a, b, rounding);
}
Tensor divide(const Tensor& a, const Scalar& b, Rounding rounding) {
  return rounded(a, b, rounding);
}
Tensor divide(const Scalar& a, const Tensor& b, Rounding rounding) {
  return rounded(a, b, rounding);
}

}  // namespace extensor
