// The functions of Value and Dual, generated from the op tables. A value comes from the kernel of
// its row, a derivative from the kernel of the row's backward.
#include "ops/expression.h"

#include <initializer_list>
#include <span>
#include <string_view>

#include "core/make_tensor.h"
#include "extensor/elementwise.h"
#include "ops/gradient_eps.h"
#include "ops/launch.h"
#include "ops/trace.h"

namespace extensor {

namespace ops {

namespace {
thread_local ExpressionScope* current_scope = nullptr;
constexpr std::size_t no_maker = static_cast<std::size_t>(-1);
}  // namespace

ExpressionScope::ExpressionScope(double eps, Trace* trace)
    : outer_(current_scope), eps_(eps), trace_(trace) {
  current_scope = this;
}
ExpressionScope::~ExpressionScope() { current_scope = outer_; }
ExpressionScope* ExpressionScope::current() { return current_scope; }

void ExpressionScope::begin_chunk(std::vector<Tensor>& targets, std::int64_t whole_numel) {
  targets_ = &targets;
  keeps_scratch_ = true;
  whole_numel_ = whole_numel;
  makers_.resize(targets.size(), no_maker);
  made_.clear();
}

void ExpressionScope::end_chunk(const std::vector<expression::Value>& values) {
  targets_ = nullptr;
  for (std::size_t k = 0; k < values.size(); ++k) {
    makers_[k] = no_maker;
    if (values[k].is_number()) continue;
    const std::byte* data = values[k].elements().impl().data;
    // Memory is reused, so the last kernel that wrote there made the value.
    for (std::size_t i = made_.size(); i-- > 0 && makers_[k] == no_maker;) {
      if (made_[i] == data) makers_[k] = i;
    }
  }
}

Tensor* ExpressionScope::next_target(const Shape& shape, DType dtype) {
  if (targets_ == nullptr) return nullptr;
  for (std::size_t k = 0; k < targets_->size(); ++k) {
    if (makers_[k] != made_.size()) continue;
    Tensor& target = (*targets_)[k];
    if (target.dtype() == dtype && target.shape() == shape) return &target;
  }
  return nullptr;
}

Tensor ExpressionScope::scratch(const Shape& shape, DType dtype, Device device) {
  for (const Tensor& tensor : scratch_) {
    if (tensor.impl().references == 1 && tensor.dtype() == dtype && tensor.shape() == shape) {
      return tensor;
    }
  }
  Tensor made = detail::make_empty("expression", shape, dtype, device);
  if (keeps_scratch_) scratch_.push_back(made);
  return made;
}

}  // namespace ops

namespace expression {

namespace {

using ops::ElementwiseOp;
using ops::Parameter;
using ops::Source;

// The dtype of the values that have elements; float64 if all are numbers.
DType dtype_of_values(std::initializer_list<const Value*> values) {
  for (const Value* value : values) {
    if (ops::Trace::is_traced(*value)) return ops::Trace::of(*value).compute();
    if (!value->is_number() && value->elements().dtype() != DType::bool_) {
      return value->elements().dtype();
    }
  }
  return DType::float64;
}

Source source_of(const Value& value, DType compute) {
  return value.is_number() ? Source(value.number(), compute) : Source(value.elements());
}

double gradient_eps() {
  const auto* scope = ops::ExpressionScope::current();
  return scope == nullptr ? ops::gradient_eps() : scope->eps();
}

// The tensor that all other sources match in shape, or null.
const Tensor* common_shape(std::span<const Source> sources) {
  const Tensor* first = nullptr;
  for (const Source& source : sources) {
    if (!source.is_tensor()) continue;
    if (first == nullptr) {
      first = &source.tensor();
    } else if (!(source.tensor().shape() == first->shape())) {
      return nullptr;
    }
  }
  return first;
}

// Applies op in the dtype `compute`. The result of numbers alone is a number.
Value apply(ElementwiseOp op, const char* name, std::initializer_list<const Value*> values,
            DType compute, DType result, Parameter first = {}, Parameter second = {}) {
  for (const Value* value : values) {
    if (ops::Trace::is_traced(*value)) {
      return ops::Trace::of(*value).apply(op, values, first, second);
    }
  }
  static const Tensor none;
  Source sources[backend::max_inputs] = {none, none, none};
  bool numbers = true;
  std::size_t count = 0;
  for (const Value* value : values) {
    numbers = numbers && value->is_number();
    sources[count++] = source_of(*value, compute);
  }
  const std::span<const Source> inputs(sources, count);
  auto* scope = ops::ExpressionScope::current();
  if (scope == nullptr || numbers) {
    const Tensor out = ops::evaluate(op, name, compute, result, inputs, first, second);
    return numbers ? Value(out.item<double>()) : Value(out);
  }
  const Tensor* like = common_shape(inputs);
  if (like == nullptr) {
    return Value(ops::evaluate(op, name, compute, result, inputs, first, second));  // throws
  }
  ops::common_device(name, inputs);
  Tensor* target = scope->next_target(like->shape(), result);
  Tensor out = target != nullptr ? *target : scope->scratch(like->shape(), result, like->device());
  ops::launch(op, compute, inputs, out, first, second,
              target != nullptr ? scope->whole_numel() : 0);
  scope->made(out);
  return Value(std::move(out));
}
Value apply(ElementwiseOp op, const char* name, std::initializer_list<const Value*> values,
            Parameter first = {}, Parameter second = {}) {
  const DType dtype = dtype_of_values(values);
  return apply(op, name, values, dtype, dtype, first, second);
}

// ---- derivatives

// The text of a row's gradient shows whether a kernel is needed.
Value gradient(ElementwiseOp op, std::string_view text, const char* name, const Value& g,
               std::initializer_list<const Value*> values, Parameter first, Parameter second) {
  if (g.is_zero() || text == "0") return 0;
  if (text == "g") return g;
  return apply(op, name, values, first, second);
}

struct UnaryRow {
  ElementwiseOp forward, backward;
  const char* name;
  std::string_view backward_text;
  bool saves_result;
};

Dual unary(const UnaryRow& row, const Dual& x, Parameter first, Parameter second,
           Parameter backward_first, Parameter backward_second) {
  const Value y = apply(row.forward, row.name, {&x.value()}, first, second);
  const Value& g = x.derivative();
  return Dual(y,
              gradient(row.backward, row.backward_text, row.name, g,
                       {&g, row.saves_result ? &y : &x.value()}, backward_first, backward_second));
}

struct BinaryRow {
  ElementwiseOp forward, gradient_a, gradient_b;
  const char* name;
  std::string_view text_a, text_b;
};

Value sum_of(const Value& a, const Value& b) {
  if (a.is_zero()) return b;
  return b.is_zero() ? a : a + b;
}

Dual binary(const BinaryRow& row, const Dual& a, const Dual& b) {
  const Value y = apply(row.forward, row.name, {&a.value(), &b.value()});
  const Parameter eps{gradient_eps(), 0};
  const Value from_a = gradient(row.gradient_a, row.text_a, row.name, a.derivative(),
                                {&a.derivative(), &a.value(), &b.value()}, eps, {});
  const Value from_b = gradient(row.gradient_b, row.text_b, row.name, b.derivative(),
                                {&b.derivative(), &a.value(), &b.value()}, eps, {});
  return Dual(y, sum_of(from_a, from_b));
}

// ---- conditions

template <class V>
Condition<V> compare(ElementwiseOp op, const char* name, const Value& a, const Value& b) {
  const DType dtype = dtype_of_values({&a, &b});
  return {apply(op, name, {&a, &b}, dtype, DType::bool_), dtype};
}
template <class V>
Condition<V> predicate(ElementwiseOp op, const char* name, const Value& x) {
  const DType dtype = dtype_of_values({&x});
  return {apply(op, name, {&x}, dtype, DType::bool_), dtype};
}

// The dtype of the condition that has elements; a comparison of numbers has no dtype.
template <class V>
DType joint_dtype(const Condition<V>& a, const Condition<V>& b) {
  return a.mask().is_number() ? b.dtype() : a.dtype();
}
Value combine(ElementwiseOp op, const char* name, const Value& a, const Value& b) {
  return apply(op, name, {&a, &b}, DType::bool_, DType::bool_);
}

Value chosen(const Value& mask, DType dtype, const Value& yes, const Value& no) {
  if (mask.is_number()) return mask.is_zero() ? no : yes;
  if (yes.is_number() && no.is_number() && yes.number() == no.number()) return yes;
  return apply(ElementwiseOp::where, "select", {&mask, &yes, &no}, dtype, dtype);
}

}  // namespace

Value select(const Condition<Value>& condition, const Value& yes, const Value& no) {
  return chosen(condition.mask(), condition.dtype(), yes, no);
}
Dual select(const Condition<Dual>& condition, const Dual& yes, const Dual& no) {
  const Value& mask = condition.mask();
  return Dual(chosen(mask, condition.dtype(), yes.value(), no.value()),
              chosen(mask, condition.dtype(), yes.derivative(), no.derivative()));
}

#define EXTENSOR_CONDITIONS(V)                                                                 \
  Condition<V> operator&&(const Condition<V>& a, const Condition<V>& b) {                      \
    return {combine(ElementwiseOp::logical_and, "&&", a.mask(), b.mask()), joint_dtype(a, b)}; \
  }                                                                                            \
  Condition<V> operator||(const Condition<V>& a, const Condition<V>& b) {                      \
    return {combine(ElementwiseOp::logical_or, "||", a.mask(), b.mask()), joint_dtype(a, b)};  \
  }                                                                                            \
  Condition<V> operator!(const Condition<V>& a) {                                              \
    return {apply(ElementwiseOp::logical_not, "!", {&a.mask()}, DType::bool_, DType::bool_),   \
            a.dtype()};                                                                        \
  }
EXTENSOR_CONDITIONS(Value)
EXTENSOR_CONDITIONS(Dual)
#undef EXTENSOR_CONDITIONS

#define EXTENSOR_COMPARISON(symbol, name)                                   \
  Condition<Value> operator symbol(const Value& a, const Value& b) {        \
    return compare<Value>(ElementwiseOp::name, #name, a, b);                \
  }                                                                         \
  Condition<Dual> operator symbol(const Dual& a, const Dual& b) {           \
    return compare<Dual>(ElementwiseOp::name, #name, a.value(), b.value()); \
  }
EXTENSOR_COMPARISON(<, less)
EXTENSOR_COMPARISON(<=, less_equal)
EXTENSOR_COMPARISON(>, greater)
EXTENSOR_COMPARISON(>=, greater_equal)
EXTENSOR_COMPARISON(==, equal)
EXTENSOR_COMPARISON(!=, not_equal)
#undef EXTENSOR_COMPARISON

// ---- the rows

namespace {
constexpr bool is_result(std::string_view saved) { return saved == "y"; }
}  // namespace

// clang-format off
#define EXTENSOR_UNARY(name, saved, backward, PARAMETERS, FORWARD, BACKWARD)                             \
  Value name(const Value& x PARAMETERS) {                                                                \
    return apply(ElementwiseOp::name, #name, {&x}, FORWARD);                                             \
  }                                                                                                      \
  Dual name(const Dual& x PARAMETERS) {                                                                  \
    constexpr UnaryRow row{ElementwiseOp::name, ElementwiseOp::name##_backward, #name, #backward,        \
                           is_result(#saved)};                                                           \
    return unary(row, x, FORWARD, BACKWARD);                                                             \
  }
#define EXTENSOR_COMMA ,
#define EXTENSOR_NONE Parameter{}, Parameter{}
#define EXTENSOR_EPS Parameter{gradient_eps(), 0}, Parameter{}
#define UNARY(name, lo_, hi_, kinks, saved, forward, backward) \
  EXTENSOR_UNARY(name, saved, backward, , EXTENSOR_NONE, EXTENSOR_NONE)
#define UNARY_EPS(name, lo_, hi_, kinks, saved, forward, backward) \
  EXTENSOR_UNARY(name, saved, backward, , EXTENSOR_NONE, EXTENSOR_EPS)
#define EXTENSOR_ONE(p) Parameter{p, 0}, Parameter{}
#define UNARY_1(name, p, p_default, lo_, hi_, kinks, saved, forward, backward) \
  EXTENSOR_UNARY(name, saved, backward, EXTENSOR_COMMA double p, EXTENSOR_ONE(p), EXTENSOR_ONE(p))
#define EXTENSOR_TWO(p, q) Parameter{p, 0}, Parameter{q, 0}
#define UNARY_2(name, p, p_default, q, q_default, lo_, hi_, kinks, saved, forward, backward)        \
  EXTENSOR_UNARY(name, saved, backward, EXTENSOR_COMMA double p EXTENSOR_COMMA double q,            \
                 EXTENSOR_TWO(p, q), EXTENSOR_TWO(p, q))
#define UNARY_2_NUMERIC(name, p, q, ...) UNARY_2(name, p, 0, q, 0, __VA_ARGS__)
#include "extensor/tables/unary.def"

#define BINARY(name, lo, hi, kinks, forward, gradient_a, gradient_b)                                     \
  Value name(const Value& a, const Value& b) { return apply(ElementwiseOp::name, #name, {&a, &b}); }     \
  Dual name(const Dual& a, const Dual& b) {                                                              \
    constexpr BinaryRow row{ElementwiseOp::name, ElementwiseOp::name##_gradient_a,                       \
                            ElementwiseOp::name##_gradient_b, #name, #gradient_a, #gradient_b};          \
    return binary(row, a, b);                                                                            \
  }
#include "extensor/tables/binary.def"

#define PREDICATE(name, ...)                                                                             \
  Condition<Value> name(const Value& x) { return predicate<Value>(ElementwiseOp::name, #name, x); }      \
  Condition<Dual> name(const Dual& x) { return predicate<Dual>(ElementwiseOp::name, #name, x.value()); }
#include "extensor/tables/logical.def"
// clang-format on

void Value::throw_traced() { throw ops::NotTraceable(); }

// ---- other spellings of rows

// Bounds that are numbers use the row clip.
Value clamp(const Value& x, const Value& lo, const Value& hi) {
  if (lo.is_number() && hi.is_number() && lo.number() <= hi.number()) {
    return clip(x, lo.number(), hi.number());
  }
  return select(x < lo, lo, select(x > hi, hi, x));
}
Dual clamp(const Dual& x, const Dual& lo, const Dual& hi) {
  if (lo.value().is_number() && hi.value().is_number() && lo.derivative().is_zero() &&
      hi.derivative().is_zero() && lo.value().number() <= hi.value().number()) {
    return clip(x, lo.value().number(), hi.value().number());
  }
  return select(x < lo, lo, select(x > hi, hi, x));
}

#define EXTENSOR_SPELLINGS(V)                                    \
  V operator+(const V& a, const V& b) { return add(a, b); }      \
  V operator-(const V& a, const V& b) { return subtract(a, b); } \
  V operator*(const V& a, const V& b) { return multiply(a, b); } \
  V operator/(const V& a, const V& b) { return divide(a, b); }   \
  V operator%(const V& a, const V& b) { return modulo(a, b); }   \
  V operator-(const V& x) { return negative(x); }                \
  V operator+(const V& x) { return x; }                          \
  V max(const V& a, const V& b) { return maximum(a, b); }        \
  V min(const V& a, const V& b) { return minimum(a, b); }
EXTENSOR_SPELLINGS(Value)
EXTENSOR_SPELLINGS(Dual)
#undef EXTENSOR_SPELLINGS

}  // namespace expression
}  // namespace extensor
