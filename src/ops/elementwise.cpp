// The public elementwise functions, generated from the op tables. A few generic functions check,
// promote and launch every row and its backward.
#include "extensor/elementwise.h"

#include <cmath>
#include <limits>

#include "core/check.h"
#include "core/make_tensor.h"
#include "extensor/broadcasting.h"
#include "extensor/complex.h"
#include "extensor/creation.h"
#include "extensor/reduction.h"
#include "ops/checked_indices.h"
#include "ops/complex_gradient.h"
#include "ops/complex_parts.h"
#include "ops/launch.h"
#include "ops/overlap.h"
#include "ops/record_elementwise.h"
#include "ops/scalar_range.h"
#include "ops/summed_row.h"

namespace extensor {

namespace {

using detail::message;
using ops::check_float;
using ops::check_grad_output;
using ops::compute_dtype;
using ops::ElementwiseOp;
using ops::evaluate;
using ops::parameter;
using ops::Parameter;
using ops::Source;

enum class Domain { floats, numbers };  // numbers: also integers, which keep their dtype

[[noreturn]] void throw_unsupported(const char* operation, DType dtype) {
  throw DTypeError(message(operation, ": not defined for dtype ", dtype));
}

DType unary_dtype(const char* operation, Domain domain, DType x) {
  if (is_differentiable(x)) return x;
  if (domain == Domain::floats) return default_float;
  if (x == DType::bool_) throw_unsupported(operation, x);
  return x;
}

// The absolute value of a complex number is real.
DType result_dtype(ElementwiseOp op, DType x) {
  return op == ElementwiseOp::abs ? real_dtype(x) : x;
}

// ---- one input

Tensor unary(ElementwiseOp op, const char* operation, Domain domain, const Tensor& x,
             Parameter first = {}, Parameter second = {}) {
  const DType dtype = unary_dtype(operation, domain, x.dtype());
  if (op == ElementwiseOp::round && is_complex(dtype)) {
    return ops::by_parts(x, [](const Tensor& parts) { return round(parts); });
  }
  const Source inputs[] = {x};
  return evaluate(op, operation, compute_dtype(dtype), result_dtype(op, dtype), inputs, first,
                  second);
}

Tensor& unary_in_place(ElementwiseOp op, const char* operation, Domain domain, Tensor& x,
                       Parameter first = {}, Parameter second = {}) {
  const DType compute = unary_dtype(operation, domain, x.dtype());
  const DType dtype = result_dtype(op, compute);
  if (dtype != x.dtype()) {
    throw DTypeError(
        message(operation, ": the result is ", dtype, " and cannot be stored in ", x.dtype()));
  }
  ops::check_writable(operation, x);
  const Source inputs[] = {x};
  return ops::write_in_place({op, operation, compute_dtype(dtype), dtype, inputs, first, second},
                             x);
}

// relu keeps integers, and so does its backward: g where x > 0, else 0.
Tensor relu_backward_of_integers(const Tensor& grad_output, const Tensor& x) {
  if (!is_integer(grad_output.dtype())) {
    throw DTypeError(message("relu_backward: grad_output is ", grad_output.dtype(), " and x is ",
                             x.dtype(), ", both must be integers or both floats"));
  }
  if (!(grad_output.shape() == x.shape())) {
    throw ShapeError(message("relu_backward: grad_output is ", grad_output.shape(), ", x is ",
                             x.shape(), " (allowed: the same shape)"));
  }
  return where(greater(x, 0), grad_output, 0).to(x.dtype());
}

// Composed of recorded ops, as autograd does it for complex numbers. No eps: the floor does not
// apply to them.
Tensor complex_unary_backward(const ops::UnaryGradient& row, const char* operation,
                              const Tensor& grad_output, const Tensor& saved) {
  if (row.forward != ElementwiseOp::round && !backend::complex_form(row.forward)) {
    check_float(operation, "the saved tensor", saved);
  }
  check_grad_output(operation, grad_output, saved.shape());
  if (row.forward == ElementwiseOp::abs) ops::check_real(operation, "grad_output", grad_output);
  return ops::gradient_as(ops::complex_unary_gradient(row, grad_output, saved), saved.dtype());
}

Tensor unary_backward(ElementwiseOp op, const char* operation, const Tensor& grad_output,
                      const Tensor& saved, Parameter first = {}, Parameter second = {}) {
  if (op == ElementwiseOp::relu_backward && is_integer(saved.dtype())) {
    return relu_backward_of_integers(grad_output, saved);
  }
  if (is_complex(saved)) [[unlikely]] {
    return complex_unary_backward(*ops::row_role(op).unary, operation, grad_output, saved);
  }
  check_float(operation, "the saved tensor", saved);
  check_grad_output(operation, grad_output, saved.shape());
  const Source inputs[] = {grad_output, saved};
  const DType wide = promote_types(grad_output.dtype(), saved.dtype());
  return evaluate(op, operation, compute_dtype(wide), saved.dtype(), inputs, first, second);
}

void check_eps(const char* operation, double eps) {
  if (eps >= 0) return;
  throw ValueError(message(operation, ": eps is ", eps, ", must be 0 or more"));
}

// ---- two inputs

// Restrictions of a row in addition to broadcasting and promotion.
struct Rule {
  Domain domain = Domain::numbers;
  bool gives_bool = false;
  bool integers_only = false;
  bool allows_bool = false;
};

constexpr bool bool_is_closed(ElementwiseOp op) {
  return op == ElementwiseOp::add || op == ElementwiseOp::multiply ||
         op == ElementwiseOp::maximum || op == ElementwiseOp::minimum;
}

struct Types {
  DType compute;
  DType result;
};

// Inline, because every op of two small tensors passes here.
[[gnu::always_inline]] inline Types binary_types(ElementwiseOp op, const char* operation,
                                                 const Rule& rule, DType common) {
  if (rule.gives_bool) return {compute_dtype(common), DType::bool_};
  if (rule.integers_only) {
    if (is_differentiable(common) || (common == DType::bool_ && !rule.allows_bool)) {
      throw_unsupported(operation, common);
    }
    return {common, common};
  }
  if (is_differentiable(common)) return {compute_dtype(common), common};
  if (rule.domain == Domain::floats) return {default_float, default_float};
  if (common == DType::bool_ && !bool_is_closed(op)) throw_unsupported(operation, common);
  return {common, common};
}

// Checks conditions on the values of b that apply to integers only.
void check_integer_operand(ElementwiseOp op, const char* operation, const Tensor& b, DType dtype) {
  if (is_differentiable(dtype) || b.numel() == 0) return;
  backend::ValueCheck check{
      .operation = operation, .argument = "b", .dtype = b.dtype(), .shape = b.shape()};
  if (op == ElementwiseOp::floor_divide || op == ElementwiseOp::modulo) {
    check.kind = backend::ValueCheck::Kind::divisor;
  } else if (op == ElementwiseOp::power && is_signed_integer(b.dtype())) {
    check.kind = backend::ValueCheck::Kind::exponent;
    check.size = std::numeric_limits<std::int64_t>::max();
  } else if (op == ElementwiseOp::bitwise_left_shift || op == ElementwiseOp::bitwise_right_shift) {
    check.kind = backend::ValueCheck::Kind::shift;
    check.size = static_cast<std::int64_t>(8 * itemsize(dtype));
  } else {
    return;
  }
  // The checking kernel does not accept bool.
  ops::check_integers(check, b.dtype() == DType::bool_ ? b.to(DType::uint8) : b);
}

Tensor binary(ElementwiseOp op, const char* operation, const Rule& rule, const Tensor& a,
              const Tensor& b) {
  const DType common =
      a.dtype() == b.dtype() ? a.dtype() : promote_types(a.dtype(), b.dtype(), operation);
  const Types types = binary_types(op, operation, rule, common);
  const Source inputs[] = {a, b};
  if (!is_differentiable(types.compute)) {
    ops::broadcast_inputs(operation, inputs);
    check_integer_operand(op, operation, b, types.compute);
  }
  return evaluate(op, operation, types.compute, types.result, inputs);
}

// The value to compare a number as. A number beyond int64 becomes ∞, since it could otherwise round
// to an equal value. A number compared with a half is rounded to it, so that full({}, 0.1,
// {float16, cpu_device}) == 0.1.
Scalar compared_as(const Rule& rule, DType tensor, const Scalar& number) {
  const bool beyond = number.default_dtype() == DType::uint64 && is_signed_integer(tensor);
  if (rule.gives_bool && beyond) return std::numeric_limits<double>::infinity();
  if (!rule.gives_bool || !is_half(tensor)) return number;
  const double value = number.as_double();
  const float rounded = tensor == DType::float16 ? static_cast<float>(Float16(value))
                                                 : static_cast<float>(BFloat16(value));
  return std::isinf(rounded) ? number : rounded;
}

// The dtypes for a tensor and a number: the number promotes weakly and must fit the resulting
// dtype.
Types scalar_types(ElementwiseOp op, const char* operation, const Rule& rule, DType tensor,
                   const Scalar& scalar) {
  const DType common = promote_with_scalar(tensor, scalar);
  if (rule.gives_bool && !is_differentiable(common)) {
    // Compare with the exact number, not with the number cast to the tensor's dtype.
    const bool natural = tensor == DType::uint64 || scalar.default_dtype() == DType::uint64;
    const bool negative = scalar.kind() == Scalar::Kind::integer && scalar.as_integer() < 0;
    if (!natural) return {DType::int64, DType::bool_};
    if (negative || is_signed_integer(tensor)) return {DType::float64, DType::bool_};
    return {DType::uint64, DType::bool_};
  }
  if (rule.gives_bool && is_integer(tensor)) return {DType::float64, DType::bool_};
  const Types types = binary_types(op, operation, rule, common);
  ops::check_scalar_fits(operation, scalar, types.result);
  return types;
}

// A complex number as an operand next to a tensor: its dtype follows that of the tensor.
Tensor complex_operand(const Scalar& number, DType tensor) {
  return ops::complex_number(number, complex_dtype(tensor));
}

Tensor binary(ElementwiseOp op, const char* operation, const Rule& rule, const Tensor& a,
              const Scalar& b) {
  if (b.is_complex()) [[unlikely]] {
    return binary(op, operation, rule, a, complex_operand(b, a.dtype()));
  }
  const Types types = scalar_types(op, operation, rule, a.dtype(), b);
  if (!is_differentiable(types.compute)) {
    check_integer_operand(op, operation,
                          scalar(b, {rule.gives_bool ? types.compute : types.result, cpu_device}),
                          types.compute);
  }
  const Source inputs[] = {a, Source(compared_as(rule, a.dtype(), b), types.compute)};
  return evaluate(op, operation, types.compute, types.result, inputs);
}

Tensor binary(ElementwiseOp op, const char* operation, const Rule& rule, const Scalar& a,
              const Tensor& b) {
  if (a.is_complex()) [[unlikely]] {
    return binary(op, operation, rule, complex_operand(a, b.dtype()), b);
  }
  const Types types = scalar_types(op, operation, rule, b.dtype(), a);
  check_integer_operand(op, operation, b, types.compute);
  const Source inputs[] = {Source(compared_as(rule, b.dtype(), a), types.compute), b};
  return evaluate(op, operation, types.compute, types.result, inputs);
}

void check_in_place(const char* operation, const Tensor& a, const Types& types) {
  const bool fits = types.result == a.dtype() ||
                    (is_floating_point(types.result) && is_floating_point(a.dtype())) ||
                    (is_complex(types.result) && is_complex(a.dtype())) ||
                    (is_integer(types.result) && is_integer(a.dtype()));
  if (!fits) {
    throw DTypeError(message(operation, ": the result is ", types.result,
                             " and cannot be stored in place in ", a.dtype()));
  }
  ops::check_writable(operation, a);
}

Tensor& binary_in_place(ElementwiseOp op, const char* operation, const Rule& rule, Tensor& a,
                        const Tensor& b) {
  const DType common = promote_types(a.dtype(), b.dtype(), operation);
  const Types types = binary_types(op, operation, rule, common);
  const Source inputs[] = {a, b};
  ops::check_on_device(operation, inputs, a.device());
  const Shape shape = ops::broadcast_inputs(operation, inputs);
  if (!(shape == a.shape())) {
    throw ShapeError(message(operation, ": the result has shape ", shape,
                             " and cannot be stored in place in ", a.shape()));
  }
  check_in_place(operation, a, types);
  ops::check_no_partial_overlap(operation, a, b);
  check_integer_operand(op, operation, b, types.compute);
  return ops::write_in_place({op, operation, types.compute, a.dtype(), inputs}, a);
}

Tensor& binary_in_place(ElementwiseOp op, const char* operation, const Rule& rule, Tensor& a,
                        const Scalar& b) {
  if (b.is_complex()) [[unlikely]] {
    return binary_in_place(op, operation, rule, a, complex_operand(b, a.dtype()));
  }
  const Types types = scalar_types(op, operation, rule, a.dtype(), b);
  check_in_place(operation, a, types);
  if (!is_differentiable(types.compute)) {
    check_integer_operand(op, operation, scalar(b, {types.result, cpu_device}), types.compute);
  }
  const Source inputs[] = {a, Source(b, types.compute)};
  return ops::write_in_place({op, operation, types.compute, a.dtype(), inputs}, a);
}

// One gradient of a two-input row, reduced to the shape of its operand.
Tensor binary_gradient(ElementwiseOp op, const char* operation, const Tensor& grad_output,
                       const Tensor& a, const Tensor& b, const Tensor& operand, Parameter first) {
  const DType wide = promote_types(grad_output.dtype(), promote_types(a.dtype(), b.dtype()));
  const Source inputs[] = {grad_output, a, b};
  const DType compute = compute_dtype(wide);
  if (operand.shape() == grad_output.shape()) {
    return evaluate(op, operation, compute, operand.dtype(), inputs, first);
  }
  // Sum before rounding if the operand was broadcast.
  return ops::evaluate_summed(op, operation, compute, operand.dtype(), inputs, operand.shape(),
                              first);
}

std::pair<Tensor, Tensor> complex_binary_backward(ElementwiseOp row, const Tensor& grad_output,
                                                  const Tensor& a, const Tensor& b) {
  const DType common = promote_types(a.dtype(), b.dtype());
  const auto operand = [&](std::size_t k) { return (k == 0 ? a : b).to(common); };
  const auto gradient = [&](std::size_t k, const Tensor& of) {
    return ops::fitted_to(ops::complex_gradient(row, k, grad_output, operand), of.shape(),
                          of.dtype());
  };
  return {gradient(0, a), gradient(1, b)};
}

std::pair<Tensor, Tensor> binary_backward(ElementwiseOp gradient_a, ElementwiseOp gradient_b,
                                          const char* operation, const Tensor& grad_output,
                                          const Tensor& a, const Tensor& b, double eps = 0) {
  const ElementwiseOp row = ops::row_role(gradient_a).binary->forward;
  const bool complex = backend::complex_form(row) && (is_complex(a) || is_complex(b));
  if (complex) {
    ops::check_operands(operation, grad_output, a, b);
  } else {
    check_float(operation, "a", a);
    check_float(operation, "b", b);
  }
  const Source operands[] = {a, b};
  check_grad_output(operation, grad_output, ops::broadcast_inputs(operation, operands));
  check_eps(operation, eps);
  if (complex) return complex_binary_backward(row, grad_output, a, b);
  const Parameter first{eps, 0};
  return {binary_gradient(gradient_a, operation, grad_output, a, b, a, first),
          binary_gradient(gradient_b, operation, grad_output, a, b, b, first)};
}

void check_linear_shapes(const char* operation, const Tensor& grad_output, const Shape& a_shape,
                         const Shape& b_shape) {
  if (!are_shapes_broadcastable(a_shape, b_shape)) {
    throw ShapeError(message(operation, ": shapes do not broadcast: ", a_shape, " and ", b_shape));
  }
  check_grad_output(operation, grad_output, broadcast_shapes(a_shape, b_shape));
}

void check_bounds(const char* operation, const Scalar& lo, const Scalar& hi) {
  // Compare integers exactly: two large ones may differ in digits that a double cannot hold.
  const auto exact = [](const Scalar& x) -> __int128 {
    return x.kind() == Scalar::Kind::unsigned_integer ? static_cast<__int128>(x.as_unsigned())
                                                      : static_cast<__int128>(x.as_integer());
  };
  const bool real = lo.is_floating() || hi.is_floating();
  if (real ? lo.as_double() <= hi.as_double() : exact(lo) <= exact(hi)) return;
  throw ValueError(message(operation, ": lo is ", lo, " and hi is ", hi, ", lo ≤ hi is required"));
}

// The order of a derivative is the only parameter of a row that is not any number.
void check_order(ElementwiseOp op, const char* operation, const char* argument, double order) {
  if (op != ElementwiseOp::polygamma) return;
  if (order >= 0 && order <= 100 && order == std::floor(order)) return;
  throw ValueError(
      message(operation, ": ", argument, " is ", order, ", must be an integer from 0 to 100"));
}

DType clipped_dtype(const char* operation, const Tensor& x, const Scalar& lo, const Scalar& hi) {
  check_bounds(operation, lo, hi);
  const DType dtype = promote_with_scalar(promote_with_scalar(x.dtype(), lo), hi);
  if (dtype == DType::bool_) throw_unsupported(operation, dtype);
  ops::check_scalar_fits(operation, lo, dtype);
  ops::check_scalar_fits(operation, hi, dtype);
  return dtype;
}

// Integers clip against integers; a float bound makes the result a float, as in other functions.
Tensor clipped(ElementwiseOp op, const char* operation, const Tensor& x, const Scalar& lo,
               const Scalar& hi) {
  const DType dtype = clipped_dtype(operation, x, lo, hi);
  const Source inputs[] = {x};
  return evaluate(op, operation, compute_dtype(dtype), dtype, inputs, parameter(lo), parameter(hi));
}

Tensor& clipped_in_place(ElementwiseOp op, const char* operation, Tensor& x, const Scalar& lo,
                         const Scalar& hi) {
  const DType dtype = clipped_dtype(operation, x, lo, hi);
  if (dtype != x.dtype()) {
    throw DTypeError(
        message(operation, ": the result is ", dtype, " and cannot be stored in ", x.dtype()));
  }
  return unary_in_place(op, operation, Domain::numbers, x, parameter(lo), parameter(hi));
}

}  // namespace

// ---- the rows

// clang-format off
#define EXTENSOR_UNARY(name, domain)                                                                      \
  Tensor name(const Tensor& x) { return unary(ElementwiseOp::name, #name, domain, x); }                   \
  Tensor& name##_(Tensor& x) { return unary_in_place(ElementwiseOp::name, #name "_", domain, x); }
#define UNARY_BACKWARD(name)                                                                              \
  Tensor name##_backward(const Tensor& grad_output, const Tensor& saved) {                                \
    return unary_backward(ElementwiseOp::name##_backward, #name "_backward", grad_output, saved);         \
  }
#define UNARY(name, ...) EXTENSOR_UNARY(name, Domain::floats) UNARY_BACKWARD(name)
#define UNARY_NUMERIC(name, ...) EXTENSOR_UNARY(name, Domain::numbers) UNARY_BACKWARD(name)
#define UNARY_EPS(name, ...)                                                                              \
  EXTENSOR_UNARY(name, Domain::floats)                                                                    \
  Tensor name##_backward(const Tensor& grad_output, const Tensor& saved, StrictDouble eps) {                    \
    check_eps(#name "_backward", eps);                                                                    \
    return unary_backward(ElementwiseOp::name##_backward, #name "_backward", grad_output, saved, {eps, 0}); \
  }
#define UNARY_1(name, p, ...)                                                                             \
  Tensor name(const Tensor& x, StrictDouble p) {                                                          \
    check_order(ElementwiseOp::name, #name, #p, p);                                                       \
    return unary(ElementwiseOp::name, #name, Domain::floats, x, {p, 0});                                  \
  }                                                                                                       \
  Tensor& name##_(Tensor& x, StrictDouble p) {                                                            \
    check_order(ElementwiseOp::name, #name "_", #p, p);                                                   \
    return unary_in_place(ElementwiseOp::name, #name "_", Domain::floats, x, {p, 0});                     \
  }                                                                                                       \
  Tensor name##_backward(const Tensor& grad_output, const Tensor& saved, StrictDouble p) {                \
    check_order(ElementwiseOp::name, #name "_backward", #p, p);                                           \
    return unary_backward(ElementwiseOp::name##_backward, #name "_backward", grad_output, saved, {p, 0}); \
  }
#define UNARY_2(name, p, p_default, q, ...)                                                               \
  Tensor name(const Tensor& x, StrictDouble p, StrictDouble q) {                                                      \
    check_bounds(#name, p, q);                                                                            \
    return unary(ElementwiseOp::name, #name, Domain::floats, x, {p, 0}, {q, 0});                          \
  }                                                                                                       \
  Tensor& name##_(Tensor& x, StrictDouble p, StrictDouble q) {                                                        \
    check_bounds(#name "_", p, q);                                                                        \
    return unary_in_place(ElementwiseOp::name, #name "_", Domain::floats, x, {p, 0}, {q, 0});             \
  }                                                                                                       \
  Tensor name##_backward(const Tensor& grad_output, const Tensor& saved, StrictDouble p, StrictDouble q) {            \
    check_bounds(#name "_backward", p, q);                                                                \
    return unary_backward(ElementwiseOp::name##_backward, #name "_backward", grad_output, saved, {p, 0}, {q, 0}); \
  }
#define UNARY_2_NUMERIC(name, p, q, ...)                                                                  \
  Tensor name(const Tensor& x, const Scalar& p, const Scalar& q) {                                        \
    return clipped(ElementwiseOp::name, #name, x, p, q);                                                  \
  }                                                                                                       \
  Tensor& name##_(Tensor& x, const Scalar& p, const Scalar& q) {                                          \
    return clipped_in_place(ElementwiseOp::name, #name "_", x, p, q);                                     \
  }                                                                                                       \
  Tensor name##_backward(const Tensor& grad_output, const Tensor& saved, const Scalar& p, const Scalar& q) { \
    check_bounds(#name "_backward", p, q);                                                                \
    return unary_backward(ElementwiseOp::name##_backward, #name "_backward", grad_output, saved, parameter(p), parameter(q)); \
  }
#include "extensor/tables/unary.def"

#define EXTENSOR_BINARY(name, ...)                                                                        \
  Tensor name(const Tensor& a, const Tensor& b) { return binary(ElementwiseOp::name, #name, Rule{__VA_ARGS__}, a, b); } \
  Tensor name(const Tensor& a, const Scalar& b) { return binary(ElementwiseOp::name, #name, Rule{__VA_ARGS__}, a, b); } \
  Tensor name(const Scalar& a, const Tensor& b) { return binary(ElementwiseOp::name, #name, Rule{__VA_ARGS__}, a, b); }
#define EXTENSOR_BINARY_IN_PLACE(name, ...)                                                               \
  Tensor& name##_(Tensor& a, const Tensor& b) { return binary_in_place(ElementwiseOp::name, #name "_", Rule{__VA_ARGS__}, a, b); } \
  Tensor& name##_(Tensor& a, const Scalar& b) { return binary_in_place(ElementwiseOp::name, #name "_", Rule{__VA_ARGS__}, a, b); }
#define EXTENSOR_BINARY_BACKWARD(name)                                                                    \
  std::pair<Tensor, Tensor> name##_backward(const Tensor& grad_output, const Tensor& a, const Tensor& b) { \
    return binary_backward(ElementwiseOp::name##_gradient_a, ElementwiseOp::name##_gradient_b,            \
                           #name "_backward", grad_output, a, b);                                         \
  }
#define EXTENSOR_BINARY_BACKWARD_EPS(name)                                                                \
  std::pair<Tensor, Tensor> name##_backward(const Tensor& grad_output, const Tensor& a, const Tensor& b, StrictDouble eps) { \
    return binary_backward(ElementwiseOp::name##_gradient_a, ElementwiseOp::name##_gradient_b,            \
                           #name "_backward", grad_output, a, b, eps);                                    \
  }
#define BINARY(name, ...)                                                                                 \
  EXTENSOR_BINARY(name, .domain = Domain::floats)                                                         \
  EXTENSOR_BINARY_IN_PLACE(name, .domain = Domain::floats)                                                \
  EXTENSOR_BINARY_BACKWARD(name)
#define BINARY_NUMERIC(name, ...) EXTENSOR_BINARY(name) EXTENSOR_BINARY_IN_PLACE(name) EXTENSOR_BINARY_BACKWARD(name)
#define BINARY_EPS(name, ...)                                                                             \
  EXTENSOR_BINARY(name, .domain = Domain::floats)                                                         \
  EXTENSOR_BINARY_IN_PLACE(name, .domain = Domain::floats)                                                \
  EXTENSOR_BINARY_BACKWARD_EPS(name)
#define BINARY_NUMERIC_EPS(name, ...) EXTENSOR_BINARY(name) EXTENSOR_BINARY_IN_PLACE(name) EXTENSOR_BINARY_BACKWARD_EPS(name)
#define BINARY_LINEAR(name, lo, hi, kinks, forward, gradient_a, gradient_b)                               \
  EXTENSOR_BINARY(name) EXTENSOR_BINARY_IN_PLACE(name)                                                    \
  std::pair<Tensor, Tensor> name##_backward(const Tensor& grad_output, const Shape& a_shape, const Shape& b_shape) { \
    check_linear_shapes(#name "_backward", grad_output, a_shape, b_shape);                                \
    const auto& g = grad_output;                                                                          \
    return {reduce_broadcast_dims(gradient_a, a_shape), reduce_broadcast_dims(gradient_b, b_shape)};      \
  }
#include "extensor/tables/binary.def"

#define COMPARE(name, ...) EXTENSOR_BINARY(name, .gives_bool = true)
#define PREDICATE(name, ...)                                                                              \
  Tensor name(const Tensor& x) {                                                                          \
    const Source inputs[] = {x};                                                                          \
    return evaluate(ElementwiseOp::name, #name, compute_dtype(x.dtype()), DType::bool_, inputs);          \
  }
#define BITWISE(name, ...)                                                                                \
  EXTENSOR_BINARY(name, .integers_only = true, .allows_bool = true)                                       \
  EXTENSOR_BINARY_IN_PLACE(name, .integers_only = true, .allows_bool = true)
#define SHIFT(name, ...)                                                                                  \
  EXTENSOR_BINARY(name, .integers_only = true)                                                            \
  EXTENSOR_BINARY_IN_PLACE(name, .integers_only = true)
#define BITWISE_UNARY(name, ...)                                                                          \
  Tensor name(const Tensor& x) {                                                                          \
    if (x.dtype() == DType::bool_) return logical_not(x);                                                 \
    if (is_differentiable(x.dtype())) throw_unsupported(#name, x.dtype());                                \
    return unary(ElementwiseOp::name, #name, Domain::numbers, x);                                         \
  }
#include "extensor/tables/logical.def"
// clang-format on

// ---- functions without a row

Tensor gelu(const Tensor& x, StrictBool approximate) {
  return approximate ? gelu_tanh(x) : gelu(x);
}

Tensor gelu_backward(const Tensor& grad_output, const Tensor& x, StrictBool approximate) {
  return approximate ? gelu_tanh_backward(grad_output, x) : gelu_backward(grad_output, x);
}

Tensor fma(const Tensor& a, const Tensor& b, const Tensor& c) {
  const DType common = promote_types(promote_types(a.dtype(), b.dtype(), "fma"), c.dtype(), "fma");
  if (common == DType::bool_) throw_unsupported("fma", common);
  const Source inputs[] = {a, b, c};
  return evaluate(ElementwiseOp::fma, "fma", compute_dtype(common), common, inputs);
}

FmaGradients fma_backward(const Tensor& grad_output, const Tensor& a, const Tensor& b,
                          const Shape& c_shape) {
  constexpr const char* operation = "fma_backward";
  check_float(operation, "a", a);
  check_float(operation, "b", b);
  const Source operands[] = {a, b};
  check_linear_shapes(operation, grad_output, ops::broadcast_inputs(operation, operands), c_shape);
  // The gradients of the product are those of multiply.
  return {binary_gradient(ElementwiseOp::multiply_gradient_a, operation, grad_output, a, b, a, {}),
          binary_gradient(ElementwiseOp::multiply_gradient_b, operation, grad_output, a, b, b, {}),
          reduce_broadcast_dims(grad_output, c_shape)};
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  if (condition.dtype() != DType::bool_) {
    throw DTypeError(message("where: condition is ", condition.dtype(), ", must be bool"));
  }
  const DType common = promote_types(a.dtype(), b.dtype(), "where");
  const Source inputs[] = {condition, a, b};
  return evaluate(ElementwiseOp::where, "where", compute_dtype(common), common, inputs);
}

std::pair<Tensor, Tensor> where_backward(const Tensor& grad_output, const Tensor& condition,
                                         const Shape& a_shape, const Shape& b_shape) {
  if (condition.dtype() != DType::bool_) {
    throw DTypeError(message("where_backward: condition is ", condition.dtype(), ", must be bool"));
  }
  check_linear_shapes("where_backward", grad_output, broadcast_shapes(condition.shape(), a_shape),
                      b_shape);
  const DType dtype = grad_output.dtype();
  const Tensor zero = zeros({}, {dtype, cpu_device});
  const auto gradient = [&](const Tensor& yes, const Tensor& no, const Shape& shape) {
    const Source inputs[] = {condition, yes, no};
    return ops::evaluate_summed(ElementwiseOp::where, "where_backward", compute_dtype(dtype), dtype,
                                inputs, shape);
  };
  return {gradient(grad_output, zero, a_shape), gradient(zero, grad_output, b_shape)};
}

Tensor isclose(const Tensor& a, const Tensor& b, StrictDouble relative, StrictDouble absolute,
               StrictBool equal_nan) {
  if (!(relative >= 0) || !(absolute >= 0)) {
    throw ValueError(message("isclose: tolerances must be 0 or more, relative is ", relative,
                             ", absolute is ", absolute));
  }
  const bool complex = is_complex(a.dtype()) || is_complex(b.dtype());
  const DType wide = complex ? complex128 : float64;
  const Tensor x = a.to(wide), y = b.to(wide);
  const Tensor near = less_equal(abs(x - y), absolute + relative * abs(y)) & isfinite(y);
  const Tensor close = near | equal(x, y);
  return equal_nan ? close | (isnan(x) & isnan(y)) : close;
}

bool allclose(const Tensor& a, const Tensor& b, StrictDouble relative, StrictDouble absolute,
              StrictBool equal_nan) {
  return all(isclose(a, b, relative, absolute, equal_nan)).item<bool>();
}

#define EXTENSOR_COMPOUND(symbol, name)                                                          \
  Tensor& Tensor::operator symbol(const Tensor& other)& { return extensor::name(*this, other); } \
  Tensor& Tensor::operator symbol(const Scalar& other)& { return extensor::name(*this, other); }
EXTENSOR_COMPOUND(+=, add_)
EXTENSOR_COMPOUND(-=, subtract_)
EXTENSOR_COMPOUND(*=, multiply_)
EXTENSOR_COMPOUND(/=, divide_)
EXTENSOR_COMPOUND(%=, modulo_)
#undef EXTENSOR_COMPOUND

}  // namespace extensor
