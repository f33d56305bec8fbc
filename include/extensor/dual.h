// The value types of elementwise expressions: elements, and elements with a derivative.
//
//   [](auto x) { return x * sigmoid(x); }     // x is a Value, or a Dual for derivatives
//
// A function written against `auto` is evaluated on a Value to compute its value and on a Dual to
// compute its derivative as well; the rows of the op tables supply the derivatives. Numbers mix in
// as they are. Available are all functions of the tables, the operators + - * / % < <= > >= == !=
// && || !, and max, min, clamp, select(condition, yes, no) and pow. extensor/user_ops.h makes an op
// of such a function.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor::ops {
class Trace;
}  // namespace extensor::ops

namespace extensor::expression {

// The elements of one chunk, or one number that represents all of them. While a formula is traced,
// in order to be compiled for a device, a value has no elements yet.
class Value {
 public:
  Value() = default;
  template <class Number>
  requires std::is_arithmetic_v<Number> Value(Number number)  // NOLINT: implicit, literals mix in
      : number_(static_cast<double>(number)) {}
  // float32 or float64, dense.
  explicit Value(Tensor elements) : elements_(std::move(elements)) {}

  bool is_number() const { return !elements_.defined() && trace_ == 0; }
  bool is_zero() const { return is_number() && number_ == 0; }
  double number() const { return number_; }
  // Undefined for a number. A traced value throws: the op then evaluates the function on elements.
  const Tensor& elements() const {
    if (trace_ != 0) throw_traced();
    return elements_;
  }

 private:
  friend class ops::Trace;
  [[noreturn]] static void throw_traced();

  Tensor elements_;
  double number_ = 0;
  std::uint32_t trace_ = 0;  // the serial number of the trace to which the value belongs, or 0
  std::int32_t node_ = 0;    // the input or step of that trace
};

// A value and its derivative along one direction; a derivative that is the number 0 costs nothing.
class Dual {
 public:
  Dual() = default;
  template <class Number>
  requires std::is_arithmetic_v<Number> Dual(Number number)  // NOLINT: implicit, literals mix in
      : value_(number) {}
  explicit Dual(Value value, Value derivative = 0)
      : value_(std::move(value)), derivative_(std::move(derivative)) {}

  const Value& value() const { return value_; }
  const Value& derivative() const { return derivative_; }

 private:
  Value value_, derivative_;
};

// The result of comparing two V, and the condition of select.
template <class V>
class Condition {
 public:
  Condition(Value mask, DType dtype) : mask_(std::move(mask)), dtype_(dtype) {}
  const Value& mask() const { return mask_; }  // bool elements, or 0 or 1
  DType dtype() const { return dtype_; }       // of the compared values

 private:
  Value mask_;
  DType dtype_;
};

#define EXTENSOR_EXPRESSION(V)                                           \
  V operator+(const V& a, const V& b);                                   \
  V operator-(const V& a, const V& b);                                   \
  V operator*(const V& a, const V& b);                                   \
  V operator/(const V& a, const V& b);                                   \
  V operator%(const V& a, const V& b); /* the sign of the divisor */     \
  V operator-(const V& x);                                               \
  V operator+(const V& x);                                               \
  Condition<V> operator<(const V& a, const V& b);                        \
  Condition<V> operator<=(const V& a, const V& b);                       \
  Condition<V> operator>(const V& a, const V& b);                        \
  Condition<V> operator>=(const V& a, const V& b);                       \
  Condition<V> operator==(const V& a, const V& b);                       \
  Condition<V> operator!=(const V& a, const V& b);                       \
  Condition<V> operator&&(const Condition<V>& a, const Condition<V>& b); \
  Condition<V> operator||(const Condition<V>& a, const Condition<V>& b); \
  Condition<V> operator!(const Condition<V>& a);                         \
  V select(const Condition<V>& condition, const V& yes, const V& no);    \
  V max(const V& a, const V& b); /* NaN in either gives NaN */           \
  V min(const V& a, const V& b);                                         \
  V clamp(const V& x, const V& lo, const V& hi); /* lets NaN through */
EXTENSOR_EXPRESSION(Value)
EXTENSOR_EXPRESSION(Dual)
#undef EXTENSOR_EXPRESSION

// clang-format off
#define UNARY(name, ...) Value name(const Value& x); Dual name(const Dual& x);
#define UNARY_1(name, p, p_default, ...) \
  Value name(const Value& x, double p = p_default); Dual name(const Dual& x, double p = p_default);
#define UNARY_2(name, p, p_default, q, q_default, ...)                \
  Value name(const Value& x, double p = p_default, double q = q_default); \
  Dual name(const Dual& x, double p = p_default, double q = q_default);
#define UNARY_2_NUMERIC(name, p, q, ...) \
  Value name(const Value& x, double p, double q); Dual name(const Dual& x, double p, double q);
#include "extensor/tables/unary.def"
#define BINARY(name, ...) \
  Value name(const Value& a, const Value& b); Dual name(const Dual& a, const Dual& b);
#include "extensor/tables/binary.def"
#define PREDICATE(name, ...) \
  Condition<Value> name(const Value& x); Condition<Dual> name(const Dual& x);
#include "extensor/tables/logical.def"
// clang-format on

inline Value pow(const Value& a, const Value& b) { return power(a, b); }
inline Dual pow(const Dual& a, const Dual& b) { return power(a, b); }

}  // namespace extensor::expression

EXTENSOR_END_API
