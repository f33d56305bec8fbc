// Every elementwise operation, generated from the op tables in extensor/tables/.
//
//   Tensor y = extensor::sigmoid(x);
//   Tensor grad_x = extensor::sigmoid_backward(grad_y, y);          // explicit gradient
//   auto [grad_a, grad_b] = extensor::multiply_backward(g, a, b);   // summed to a's and b's shapes
//   extensor::exp_(x);                                              // in place
//
// Inputs broadcast; dtypes promote; integers become float32 if the function is not defined on
// integers. A backward takes a grad_output of the shape of the forward's result, and floats.
// Errors: ShapeError, DTypeError, DeviceError, and ValueError for integer division by 0, shifts
// outside the width, clip with lo > hi.
#pragma once

#include <optional>
#include <utility>

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

// The magnitude below which the argument of a singular gradient (b of divide, x of log …) is
// replaced; see safe() in the tables and docs/gradient-rules.md. eps = 0 follows IEEE.
inline constexpr double default_eps = 1e-10;

#define UNARY(name, lo, hi, kinks, saved, ...) \
  Tensor name(const Tensor& x);                \
  Tensor& name##_(Tensor& x);                  \
  Tensor name##_backward(const Tensor& grad_output, const Tensor& saved);
#define UNARY_EPS(name, lo, hi, kinks, saved, ...)                       \
  Tensor name(const Tensor& x);                                          \
  Tensor& name##_(Tensor& x);                                            \
  Tensor name##_backward(const Tensor& grad_output, const Tensor& saved, \
                         StrictDouble eps = default_eps);
#define UNARY_1(name, p, p_default, lo, hi, kinks, saved, ...)           \
  Tensor name(const Tensor& x, StrictDouble p = p_default);              \
  Tensor& name##_(Tensor& x, StrictDouble p = p_default);                \
  Tensor name##_backward(const Tensor& grad_output, const Tensor& saved, \
                         StrictDouble p = p_default);
#define UNARY_2(name, p, p_default, q, q_default, lo_, hi_, kinks, saved, ...)          \
  Tensor name(const Tensor& x, StrictDouble p = p_default, StrictDouble q = q_default); \
  Tensor& name##_(Tensor& x, StrictDouble p = p_default, StrictDouble q = q_default);   \
  Tensor name##_backward(const Tensor& grad_output, const Tensor& saved,                \
                         StrictDouble p = p_default, StrictDouble q = q_default);
#define UNARY_2_NUMERIC(name, p, q, lo_, hi_, kinks, saved, ...)                          \
  Tensor name(const Tensor& x, const Scalar& p, const Scalar& q);                         \
  Tensor& name##_(Tensor& x, const Scalar& p, const Scalar& q);                           \
  Tensor name##_backward(const Tensor& grad_output, const Tensor& saved, const Scalar& p, \
                         const Scalar& q);
#include "extensor/tables/unary.def"

#define EXTENSOR_DECLARE_BINARY(name)            \
  Tensor name(const Tensor& a, const Tensor& b); \
  Tensor name(const Tensor& a, const Scalar& b); \
  Tensor name(const Scalar& a, const Tensor& b); \
  Tensor& name##_(Tensor& a, const Tensor& b);   \
  Tensor& name##_(Tensor& a, const Scalar& b);

#define BINARY(name, ...)                                                               \
  EXTENSOR_DECLARE_BINARY(name)                                                         \
  std::pair<Tensor, Tensor> name##_backward(const Tensor& grad_output, const Tensor& a, \
                                            const Tensor& b);
#define BINARY_EPS(name, ...)                                                           \
  EXTENSOR_DECLARE_BINARY(name)                                                         \
  std::pair<Tensor, Tensor> name##_backward(const Tensor& grad_output, const Tensor& a, \
                                            const Tensor& b, StrictDouble eps = default_eps);
#define BINARY_LINEAR(name, ...)                                                             \
  EXTENSOR_DECLARE_BINARY(name)                                                              \
  std::pair<Tensor, Tensor> name##_backward(const Tensor& grad_output, const Shape& a_shape, \
                                            const Shape& b_shape);
#include "extensor/tables/binary.def"

#define COMPARE(name, ...)                       \
  Tensor name(const Tensor& a, const Tensor& b); \
  Tensor name(const Tensor& a, const Scalar& b); \
  Tensor name(const Scalar& a, const Tensor& b);
#define PREDICATE(name, ...) Tensor name(const Tensor& x);
#define BITWISE(name, ...) EXTENSOR_DECLARE_BINARY(name)
#define BITWISE_UNARY(name, ...) Tensor name(const Tensor& x);
#include "extensor/tables/logical.def"

// gelu, with the tanh approximation if `approximate` is set.
Tensor gelu(const Tensor& x, StrictBool approximate);
Tensor gelu_backward(const Tensor& grad_output, const Tensor& x, StrictBool approximate);

// a · b + c, rounded once for float32 and float64.
Tensor fma(const Tensor& a, const Tensor& b, const Tensor& c);
struct FmaGradients {
  Tensor a, b, c;
};
FmaGradients fma_backward(const Tensor& grad_output, const Tensor& a, const Tensor& b,
                          const Shape& c_shape);

// condition ? a : b, all three broadcasting; condition is bool. A number takes the dtype of the
// tensor, as in x + 1; of two numbers the result is bool, int64 or float32. ValueError if an
// integer dtype cannot hold the number.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor where(const Tensor& condition, const Tensor& a, const Scalar& b);
Tensor where(const Tensor& condition, const Scalar& a, const Tensor& b);
Tensor where(const Tensor& condition, const Scalar& a, const Scalar& b);
std::pair<Tensor, Tensor> where_backward(const Tensor& grad_output, const Tensor& condition,
                                         const Shape& a_shape, const Shape& b_shape);

// Bounds of clip, either of which may be absent: clip(x, {.min = 0}).
struct ClipBounds {
  std::optional<Scalar> min = {};
  std::optional<Scalar> max = {};
};
// clip with one bound or both. ValueError without a bound.
Tensor clip(const Tensor& x, const ClipBounds& bounds);
inline Tensor clip(const Tensor& x, const Scalar& min, std::nullopt_t = std::nullopt) {
  return clip(x, ClipBounds{.min = min});
}
inline Tensor clip(const Tensor& x, std::nullopt_t, const Scalar& max) {
  return clip(x, ClipBounds{.max = max});
}
// Bounds that broadcast against x; an undefined one is absent. Where min exceeds max the result is
// max, as in NumPy; a NaN in a bound yields NaN. The gradient goes to x on the closed interval, and
// to the bound outside of it.
Tensor clip(const Tensor& x, const Tensor& min, const Tensor& max = {});
struct ClipGradients {
  Tensor x, min, max;  // undefined if the bound was
};
ClipGradients clip_backward(const Tensor& grad_output, const Tensor& x, const Tensor& min,
                            const Tensor& max = {});

// How divide rounds its result.
enum class Rounding : std::uint8_t { none, trunc, floor };
// a / b, rounded towards 0 or down. A rounded quotient of integers is an exact integer, its divisor
// 0 a ValueError; the gradient of a rounded quotient is 0.
Tensor divide(const Tensor& a, const Tensor& b, Rounding rounding);
Tensor divide(const Tensor& a, const Scalar& b, Rounding rounding);
Tensor divide(const Scalar& a, const Tensor& b, Rounding rounding);

// |a − b| ≤ absolute + relative · |b|, equal infinities included; NaN equals NaN only on request.
Tensor isclose(const Tensor& a, const Tensor& b, StrictDouble relative = 1e-5,
               StrictDouble absolute = 1e-8, StrictBool equal_nan = false);
bool allclose(const Tensor& a, const Tensor& b, StrictDouble relative = 1e-5,
              StrictDouble absolute = 1e-8, StrictBool equal_nan = false);

// The names of the Python Array API.
inline Tensor remainder(const Tensor& a, const Tensor& b) { return modulo(a, b); }
inline Tensor remainder(const Tensor& a, const Scalar& b) { return modulo(a, b); }
inline Tensor remainder(const Scalar& a, const Tensor& b) { return modulo(a, b); }
inline Tensor pow(const Tensor& a, const Tensor& b) { return power(a, b); }
inline Tensor pow(const Tensor& a, const Scalar& b) { return power(a, b); }
inline Tensor pow(const Scalar& a, const Tensor& b) { return power(a, b); }

#define EXTENSOR_OPERATOR(symbol, name)                                                  \
  inline Tensor operator symbol(const Tensor& a, const Tensor& b) { return name(a, b); } \
  inline Tensor operator symbol(const Tensor& a, const Scalar& b) { return name(a, b); } \
  inline Tensor operator symbol(const Scalar& a, const Tensor& b) { return name(a, b); }
EXTENSOR_OPERATOR(+, add)
EXTENSOR_OPERATOR(-, subtract)
EXTENSOR_OPERATOR(*, multiply)
EXTENSOR_OPERATOR(/, divide)
EXTENSOR_OPERATOR(%, modulo)
EXTENSOR_OPERATOR(==, equal)
EXTENSOR_OPERATOR(!=, not_equal)
EXTENSOR_OPERATOR(<, less)
EXTENSOR_OPERATOR(<=, less_equal)
EXTENSOR_OPERATOR(>, greater)
EXTENSOR_OPERATOR(>=, greater_equal)
EXTENSOR_OPERATOR(&, bitwise_and)
EXTENSOR_OPERATOR(|, bitwise_or)
EXTENSOR_OPERATOR(^, bitwise_xor)
EXTENSOR_OPERATOR(<<, bitwise_left_shift)
EXTENSOR_OPERATOR(>>, bitwise_right_shift)
#undef EXTENSOR_OPERATOR

inline Tensor operator-(const Tensor& x) { return negative(x); }
inline Tensor operator+(const Tensor& x) { return positive(x); }
inline Tensor operator~(const Tensor& x) { return bitwise_invert(x); }
inline Tensor operator!(const Tensor& x) { return logical_not(x); }
// Element by element, on any dtype. Both sides are always computed: an overloaded && does not stop
// early.
inline Tensor operator&&(const Tensor& a, const Tensor& b) { return logical_and(a, b); }
inline Tensor operator||(const Tensor& a, const Tensor& b) { return logical_or(a, b); }

}  // namespace extensor

EXTENSOR_END_API
