// Rules for the rows of the elementwise tables. A number that a call takes in place of a tensor
// becomes a constant of the dtype in which the call computes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>

#include "core/check.h"
#include "extensor/creation.h"
#include "onnx/graph_builder.h"

namespace extensor::onnx {

using detail::message;

namespace {

// The call with its operands in one dtype: that of the result or, for comparisons, their own.
class Row {
 public:
  explicit Row(CallWriter& call)
      : call(call),
        dtype(call.result_dtype() == DType::bool_ ? call.row().compute : call.result_dtype()) {
    for (const AttributeTree& item : call.tree().items) {
      if (item.is_integer && !is_operand(item)) call.integer(item);  // throws if it is not fixed
    }
  }

  std::string operand(std::size_t k) { return operand(k, dtype); }
  std::string operand(std::size_t k, DType as) {
    const auto& number = call.row().numbers[k];
    if (!number) return call.input(k, as);
    const AttributeTree& item = call.item(call.call().op->inputs[k]);
    if (!item.integer.is_fixed()) {
      const std::string size = call.squeeze(call.graph.sizes({item.integer}), {0});
      return call.cast(size, DType::int64, as);
    }
    const Scalar value = number->scalar();
    if (value.is_floating()) return call.graph.number(value.as_double(), as);
    return call.graph.constant(value.kind() == Scalar::Kind::unsigned_integer
                                   ? full({}, value.as_unsigned(), DType::uint64).to(as)
                                   : full({}, value.as_integer(), DType::int64).to(as));
  }
  std::string number(double value) { return call.graph.number(value, dtype); }
  std::string node(const char* type, const Names& inputs, const Attributes& attributes = {}) {
    return call.node(type, inputs, attributes);
  }
  double first() const { return call.row().first.real; }
  double second() const { return call.row().second.real; }
  bool is_float() const { return is_floating_point(dtype); }
  // Whether the attribute is an operand that is a number.
  bool is_operand(const AttributeTree& item) const {
    const ops::Op& op = *call.call().op;
    return std::ranges::any_of(std::span(op.inputs).first(op.input_count),
                               [&](const char* input) { return item.name == input; });
  }

  CallWriter& call;
  DType dtype;
};

std::string add(Row& row, const std::string& a, const std::string& b) {
  return row.node("Add", {a, b});
}
std::string multiply(Row& row, const std::string& a, const std::string& b) {
  return row.node("Mul", {a, b});
}

template <const char* type>
void unary(CallWriter& call) {
  Row row(call);
  call.result(row.node(type, {row.operand(0)}));
}
template <const char* type>
void binary(CallWriter& call) {
  Row row(call);
  call.result(row.node(type, {row.operand(0), row.operand(1)}));
}
// Nonzero numbers are true.
template <const char* type>
void logical(CallWriter& call) {
  Row row(call);
  call.result(row.node(type, {row.operand(0, DType::bool_), row.operand(1, DType::bool_)}));
}
template <const char* on_bools, const char* on_integers>
void bitwise(CallWriter& call) {
  Row row(call);
  const bool bools = call.result_dtype() == DType::bool_;
  const DType dtype = call.result_dtype();
  call.result(
      row.node(bools ? on_bools : on_integers, {row.operand(0, dtype), row.operand(1, dtype)}));
}

#define NAME(name) constexpr char name##_type[] = #name
NAME(Neg);
NAME(Identity);
NAME(Abs);
NAME(Sign);
NAME(Ceil);
NAME(Floor);
NAME(Round);
NAME(Exp);
NAME(Log);
NAME(Sqrt);
NAME(Sin);
NAME(Cos);
NAME(Tan);
NAME(Asin);
NAME(Acos);
NAME(Atan);
NAME(Sinh);
NAME(Cosh);
NAME(Tanh);
NAME(Asinh);
NAME(Acosh);
NAME(Atanh);
NAME(Erf);
NAME(Relu);
NAME(Sigmoid);
NAME(Mish);
NAME(Reciprocal);
NAME(HardSwish);
NAME(Add);
NAME(Sub);
NAME(Mul);
NAME(Div);
NAME(Max);
NAME(Min);
NAME(Equal);
NAME(Less);
NAME(LessOrEqual);
NAME(Greater);
NAME(GreaterOrEqual);
NAME(And);
NAME(Or);
NAME(Xor);
NAME(BitwiseAnd);
NAME(BitwiseOr);
NAME(BitwiseXor);
#undef NAME

// ---- functions without an operator of their own

void write_square(CallWriter& call) {
  Row row(call);
  const std::string x = row.operand(0);
  call.result(multiply(row, x, x));
}

void write_trunc(CallWriter& call) {
  Row row(call);
  const std::string x = row.operand(0);
  if (!row.is_float()) return call.result(row.node("Identity", {x}));
  call.result(multiply(row, row.node("Sign", {x}), row.node("Floor", {row.node("Abs", {x})})));
}

// The integers of rounding functions are unchanged; ONNX rounds floats only.
template <const char* type>
void rounding(CallWriter& call) {
  Row row(call);
  call.result(row.node(row.is_float() ? type : "Identity", {row.operand(0)}));
}

void write_clip(CallWriter& call) {
  Row row(call);
  const auto& attributes = call.row();
  const auto bound = [&](const backend::Parameter& value) {
    if (row.is_float()) return row.number(value.real);
    return call.graph.constant(full({}, value.integer, DType::int64).to(row.dtype));
  };
  call.result(
      row.node("Clip", {row.operand(0), bound(attributes.first), bound(attributes.second)}));
}

std::string clipped(Row& row, double low, double high) {
  return row.node("Clip", {row.operand(0), row.number(low), row.number(high)});
}

void write_exp2(CallWriter& call) {
  Row row(call);
  call.result(row.node("Pow", {row.number(2), row.operand(0)}));
}

// exp(x) − 1 = tanh(x / 2) · (exp(x) + 1), without cancellation near 0.
void write_expm1(CallWriter& call) {
  Row row(call);
  const std::string x = row.operand(0);
  const std::string half = row.node("Tanh", {multiply(row, x, row.number(0.5))});
  call.result(multiply(row, half, add(row, row.node("Exp", {x}), row.number(1))));
}

// 2 · atanh(x / (x + 2)) near 0, where 1 + x would lose digits of x; log(1 + x) elsewhere.
void write_log1p(CallWriter& call) {
  Row row(call);
  const std::string x = row.operand(0);
  const std::string near = row.node("Less", {row.node("Abs", {x}), row.number(0.5)});
  const std::string ratio = row.node("Div", {x, add(row, x, row.number(2))});
  call.result(row.node("Where", {near, multiply(row, row.node("Atanh", {ratio}), row.number(2)),
                                 row.node("Log", {add(row, x, row.number(1))})}));
}

template <int base>
void write_log_of_base(CallWriter& call) {
  Row row(call);
  call.result(multiply(row, row.node("Log", {row.operand(0)}), row.number(1 / std::log(base))));
}

void write_rsqrt(CallWriter& call) {
  Row row(call);
  call.result(row.node("Reciprocal", {row.node("Sqrt", {row.operand(0)})}));
}

void write_cbrt(CallWriter& call) {
  Row row(call);
  const std::string x = row.operand(0);
  const std::string root = row.node("Pow", {row.node("Abs", {x}), row.number(1.0 / 3)});
  call.result(multiply(row, row.node("Sign", {x}), root));
}

// ½ (1 + erf(x / √2))
std::string normal_cdf(Row& row, const std::string& x) {
  const std::string scaled = multiply(row, x, row.number(1 / std::numbers::sqrt2));
  return multiply(row, add(row, row.node("Erf", {scaled}), row.number(1)), row.number(0.5));
}

void write_normal_cdf(CallWriter& call) {
  Row row(call);
  call.result(normal_cdf(row, row.operand(0)));
}

void write_normal_pdf(CallWriter& call) {
  Row row(call);
  const std::string x = row.operand(0);
  const std::string power = multiply(row, multiply(row, x, x), row.number(-0.5));
  call.result(
      multiply(row, row.node("Exp", {power}), row.number(1 / std::sqrt(2 * std::numbers::pi))));
}

void write_leaky_relu(CallWriter& call) {
  Row row(call);
  call.result(row.node("LeakyRelu", {row.operand(0)}, {attribute("alpha", row.first())}));
}
void write_relu6(CallWriter& call) {
  Row row(call);
  call.result(clipped(row, 0, 6));
}
void write_hard_tanh(CallWriter& call) {
  Row row(call);
  call.result(clipped(row, row.first(), row.second()));
}
void write_elu(CallWriter& call) {
  Row row(call);
  call.result(row.node("Elu", {row.operand(0)}, {attribute("alpha", row.first())}));
}
void write_selu(CallWriter& call) {
  Row row(call);
  call.result(row.node("Selu", {row.operand(0)},
                       {attribute("alpha", 1.6732632423543772848170429916717),
                        attribute("gamma", 1.0507009873554804934193349852946)}));
}
void write_hard_sigmoid(CallWriter& call) {
  Row row(call);
  call.result(row.node("HardSigmoid", {row.operand(0)},
                       {attribute("alpha", 1.0 / 6), attribute("beta", 0.5)}));
}

// −log(1 + exp(−x))
void write_log_sigmoid(CallWriter& call) {
  Row row(call);
  call.result(row.node("Neg", {row.node("Softplus", {row.node("Neg", {row.operand(0)})})}));
}

void write_softplus(CallWriter& call) {
  Row row(call);
  const double beta = row.first();
  if (beta == 1) return call.result(row.node("Softplus", {row.operand(0)}));
  const std::string grown = multiply(row, row.operand(0), row.number(beta));
  call.result(row.node("Div", {row.node("Softplus", {grown}), row.number(beta)}));
}

// The activation of the op's own name.
void write_own_activation(CallWriter& call) {
  Row row(call);
  call.result(write_activation(call, call.op(), row.operand(0), row.dtype));
}

// ---- two operands

// The remainder with the sign of a, which is exact, and whether b is to be added, since the sign is
// not that of b. The floor of a / b is too large where the quotient is rounded up to an integer.
struct Remainder {
  Remainder(Row& row, const std::string& a, const std::string& b)
      : value(row.node("Mod", {a, b}, {attribute("fmod", 1)})),
        is_zero(row.node("Equal", {value, row.number(0)})) {
    const std::string differ = row.node(
        "Xor", {row.node("Less", {value, row.number(0)}), row.node("Less", {b, row.number(0)})});
    needs_b = row.node("And", {row.node("Not", {is_zero}), differ});
  }
  std::string value, is_zero, needs_b;
};

// Rounds down, as Python does; the division of integers in ONNX rounds towards 0.
void write_floor_divide(CallWriter& call) {
  Row row(call);
  const std::string a = row.operand(0), b = row.operand(1);
  if (!row.is_float()) {
    return call.result(row.node("Div", {row.node("Sub", {a, row.node("Mod", {a, b})}), b}));
  }
  const Remainder rest(row, a, b);
  const std::string plain = row.node("Floor", {row.node("Div", {a, b})});
  const std::string whole =
      row.node("Round", {row.node("Div", {row.node("Sub", {a, rest.value}), b})});
  const std::string down =
      row.node("Where", {rest.needs_b, row.node("Sub", {whole, row.number(1)}), whole});
  // The quotient is exact where b is 0 or infinite, or a is infinite.
  const std::string infinite = row.node(
      "Equal", {row.node("Abs", {b}), row.number(std::numeric_limits<double>::infinity())});
  const std::string special = row.node("Or", {infinite, row.node("IsNaN", {rest.value})});
  call.result(row.node("Where", {special, plain, down}));
}
void write_modulo(CallWriter& call) {
  Row row(call);
  const std::string a = row.operand(0), b = row.operand(1);
  if (!row.is_float()) return call.result(row.node("Mod", {a, b}));
  const Remainder rest(row, a, b);
  // Mod gives −0 for negative multiples of b.
  const std::string value = row.node("Where", {rest.is_zero, row.number(0), rest.value});
  call.result(row.node("Where", {rest.needs_b, add(row, value, b), value}));
}
void write_power(CallWriter& call) {
  Row row(call);
  call.result(row.node("Pow", {row.operand(0), row.operand(1)}));
}
// m √(1 + (n / m)²) of the magnitudes m ≥ n: squares of large and of small numbers leave the range.
void write_hypot(CallWriter& call) {
  Row row(call);
  const std::string a = row.node("Abs", {row.operand(0)}), b = row.node("Abs", {row.operand(1)});
  const std::string large = row.node("Max", {a, b}), small = row.node("Min", {a, b});
  const std::string one = row.number(1);
  const std::string divisor =
      row.node("Where", {row.node("Equal", {large, row.number(0)}), one, large});
  const std::string ratio = row.node("Div", {small, divisor});
  const std::string root = row.node("Sqrt", {add(row, multiply(row, ratio, ratio), one)});
  // An infinite operand, also beside NaN.
  const std::string infinity = row.number(std::numeric_limits<double>::infinity());
  const std::string infinite =
      row.node("Or", {row.node("Equal", {a, infinity}), row.node("Equal", {b, infinity})});
  call.result(row.node("Where", {infinite, infinity, multiply(row, large, root)}));
}
// max(a, b) + softplus(−|a − b|), where equal infinities differ by 0
void write_logaddexp(CallWriter& call) {
  Row row(call);
  const std::string a = row.operand(0), b = row.operand(1);
  const std::string gap = row.node("Neg", {row.node("Abs", {row.node("Sub", {a, b})})});
  const std::string known = row.node("Where", {row.node("Equal", {a, b}), row.number(0), gap});
  call.result(add(row, row.node("Max", {a, b}), row.node("Softplus", {known})));
}
void write_prelu(CallWriter& call) {
  Row row(call);
  const std::string x = row.operand(0), slope = row.operand(1);
  const std::string positive = row.node("Greater", {x, row.number(0)});
  call.result(row.node("Where", {positive, x, multiply(row, x, slope)}));
}
void write_not_equal(CallWriter& call) {
  Row row(call);
  call.result(row.node("Not", {row.node("Equal", {row.operand(0), row.operand(1)})}));
}

// ---- predicates and others

void write_logical_not(CallWriter& call) {
  Row row(call);
  call.result(row.node("Not", {row.operand(0, DType::bool_)}));
}
std::string is_special(Row& row, const char* type) {
  const std::string x = row.operand(0, is_floating_point(row.dtype) ? row.dtype : DType::float32);
  return row.node(type, {x});
}
void write_isnan(CallWriter& call) {
  Row row(call);
  call.result(is_special(row, "IsNaN"));
}
void write_isinf(CallWriter& call) {
  Row row(call);
  call.result(is_special(row, "IsInf"));
}
void write_isfinite(CallWriter& call) {
  Row row(call);
  call.result(
      row.node("Not", {row.node("Or", {is_special(row, "IsNaN"), is_special(row, "IsInf")})}));
}
void write_bitwise_invert(CallWriter& call) {
  Row row(call);
  const DType dtype = call.result_dtype();
  call.result(row.node(dtype == DType::bool_ ? "Not" : "BitwiseNot", {row.operand(0, dtype)}));
}

void write_where(CallWriter& call) {
  Row row(call);
  const DType dtype = call.result_dtype();
  call.result(row.node(
      "Where", {row.operand(0, DType::bool_), row.operand(1, dtype), row.operand(2, dtype)}));
}
void write_fma(CallWriter& call) {
  Row row(call);
  call.result(add(row, multiply(row, row.operand(0), row.operand(1)), row.operand(2)));
}
// Also conversions, and fills in place, which take their shape from the result.
void write_copy(CallWriter& call) {
  Row row(call);
  const DType dtype = call.result_dtype();
  std::string x = row.operand(0, dtype);
  if (call.row().in_place) {
    x = call.node("Expand", {x, call.graph.sizes(call.result_shape())});
  }
  call.result(x);
}

constexpr ExportRule rules[] = {
    {"negative", unary<Neg_type>},
    {"positive", unary<Identity_type>},
    {"abs", unary<Abs_type>},
    {"square", write_square},
    {"sign", unary<Sign_type>},
    {"reciprocal", unary<Reciprocal_type>},
    {"ceil", rounding<Ceil_type>},
    {"floor", rounding<Floor_type>},
    {"round", rounding<Round_type>},
    {"trunc", write_trunc},
    {"clip", write_clip},
    {"exp", unary<Exp_type>},
    {"exp2", write_exp2},
    {"expm1", write_expm1},
    {"log", unary<Log_type>},
    {"log2", write_log_of_base<2>},
    {"log10", write_log_of_base<10>},
    {"log1p", write_log1p},
    {"sqrt", unary<Sqrt_type>},
    {"rsqrt", write_rsqrt},
    {"cbrt", write_cbrt},
    {"sin", unary<Sin_type>},
    {"cos", unary<Cos_type>},
    {"tan", unary<Tan_type>},
    {"asin", unary<Asin_type>},
    {"acos", unary<Acos_type>},
    {"atan", unary<Atan_type>},
    {"sinh", unary<Sinh_type>},
    {"cosh", unary<Cosh_type>},
    {"tanh", unary<Tanh_type>},
    {"asinh", unary<Asinh_type>},
    {"acosh", unary<Acosh_type>},
    {"atanh", unary<Atanh_type>},
    {"erf", unary<Erf_type>},
    {"normal_cdf", write_normal_cdf},
    {"normal_pdf", write_normal_pdf},
    {"relu", unary<Relu_type>},
    {"leaky_relu", write_leaky_relu},
    {"relu6", write_relu6},
    {"sigmoid", unary<Sigmoid_type>},
    {"log_sigmoid", write_log_sigmoid},
    {"gelu", write_own_activation},
    {"gelu_tanh", write_own_activation},
    {"elu", write_elu},
    {"selu", write_selu},
    {"silu", write_own_activation},
    {"mish", unary<Mish_type>},
    {"softplus", write_softplus},
    {"hard_sigmoid", write_hard_sigmoid},
    {"hard_swish", unary<HardSwish_type>},
    {"hard_tanh", write_hard_tanh},
    {"add", binary<Add_type>},
    {"subtract", binary<Sub_type>},
    {"multiply", binary<Mul_type>},
    {"divide", binary<Div_type>},
    {"floor_divide", write_floor_divide},
    {"modulo", write_modulo},
    {"power", write_power},
    {"maximum", binary<Max_type>},
    {"minimum", binary<Min_type>},
    {"hypot", write_hypot},
    {"logaddexp", write_logaddexp},
    {"prelu", write_prelu},
    {"equal", binary<Equal_type>},
    {"not_equal", write_not_equal},
    {"less", binary<Less_type>},
    {"less_equal", binary<LessOrEqual_type>},
    {"greater", binary<Greater_type>},
    {"greater_equal", binary<GreaterOrEqual_type>},
    {"logical_and", logical<And_type>},
    {"logical_or", logical<Or_type>},
    {"logical_xor", logical<Xor_type>},
    {"logical_not", write_logical_not},
    {"isnan", write_isnan},
    {"isinf", write_isinf},
    {"isfinite", write_isfinite},
    {"bitwise_and", bitwise<And_type, BitwiseAnd_type>},
    {"bitwise_or", bitwise<Or_type, BitwiseOr_type>},
    {"bitwise_xor", bitwise<Xor_type, BitwiseXor_type>},
    {"bitwise_invert", write_bitwise_invert},
    {"where", write_where},
    {"fma", write_fma},
    {"copy", write_copy},
};

}  // namespace

const std::span<const ExportRule> elementwise_export_rules = rules;

std::string write_activation(CallWriter& call, std::string_view name, const std::string& x,
                             DType dtype) {
  const auto number = [&](double value) { return call.graph.number(value, dtype); };
  const auto multiplied = [&](const std::string& a, const std::string& b) {
    return call.node("Mul", {a, b});
  };
  if (name == "none") return x;
  if (name == "relu") return call.node("Relu", {x});
  if (name == "sigmoid") return call.node("Sigmoid", {x});
  if (name == "tanh") return call.node("Tanh", {x});
  if (name != "silu" && name != "gelu" && name != "gelu_tanh") {
    call.refuse(message("activation ", name, " has no form in ONNX"));
  }
  // These multiply x by a factor that is 0 for all x below some number, so −∞ would become NaN. A
  // bound of x below that number changes no other result. It is a node in front, so that runtimes
  // still recognize the operators behind it as one function.
  const std::string bounded = call.node("Max", {x, number(dtype == DType::float64 ? -1024 : -128)});
  if (name == "silu") return multiplied(bounded, call.node("Sigmoid", {bounded}));
  const bool exact = name == "gelu";
  if (call.graph.opset() >= 20) {
    return call.node("Gelu", {bounded}, {attribute("approximate", exact ? "none" : "tanh")});
  }
  const std::string half = multiplied(bounded, number(0.5));
  std::string inner;  // erf(x / √2), or tanh(√(2 / π) · (x + 0.044715 x³))
  if (exact) {
    inner = call.node("Erf", {multiplied(bounded, number(1 / std::numbers::sqrt2))});
  } else {
    const std::string cube = multiplied(multiplied(bounded, bounded), bounded);
    const std::string sum = call.node("Add", {bounded, multiplied(cube, number(0.044715))});
    inner = call.node("Tanh", {multiplied(sum, number(std::sqrt(2 / std::numbers::pi)))});
  }
  return multiplied(half, call.node("Add", {inner, number(1)}));
}

}  // namespace extensor::onnx
