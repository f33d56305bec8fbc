// Elementwise operators of files.
#include <cmath>
#include <limits>

#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "onnx/program.h"

namespace extensor::onnx {

using detail::message;

namespace {

using Unary = Tensor (*)(const Tensor&);
using Binary = Tensor (*)(const Tensor&, const Tensor&);

template <Unary function>
Kernel unary(NodeReader&) {
  return [](Arguments x) { return Results{function(x[0])}; };
}

// Shapes are computed on the CPU, beside tensors on another device.
Tensor beside(const Tensor& x, const Tensor& other) {
  return x.device() == cpu_device && x.ndim() != 0 ? x.to(other.device()) : x;
}

Tensor prelu_of(const Tensor& x, const Tensor& slope) {
  check_broadcasts("PRelu: slope", slope, x);
  return prelu(x, slope);
}

template <Binary function>
Kernel binary(NodeReader&) {
  return [](Arguments x) { return Results{function(beside(x[0], x[1]), beside(x[1], x[0]))}; };
}

// Operators on any number of tensors.
template <Binary function>
Kernel folded(NodeReader&) {
  return [](Arguments x) {
    Tensor y = x[0];
    for (const Tensor& next : x.subspan(1)) y = function(beside(y, next), beside(next, y));
    return Results{y};
  };
}

Kernel translate_mean(NodeReader& node) {
  const double scale = 1 / static_cast<double>(node.inputs());
  return [scale](Arguments x) {
    Tensor y = x[0];
    for (const Tensor& next : x.subspan(1)) y = y + next;
    return Results{y * scale};
  };
}

// ---- functions that differ from the operator of that name

Tensor identity(const Tensor& x) { return x; }
// Integers round towards 0, as in C.
Tensor quotient(const Tensor& a, const Tensor& b) {
  if (is_floating_point(a.dtype())) return divide(a, b);
  const Tensor rest = modulo(a, b), down = floor_divide(a, b);
  const Tensor rounds_up = logical_and(not_equal(rest, 0), not_equal(less(a, 0), less(b, 0)));
  return down + rounds_up.to(a.dtype());
}
// The result has the dtype of the base. Integers to the power of floats are computed in float64.
Tensor raised(const Tensor& a, const Tensor& b) {
  if (is_floating_point(b.dtype()) && !is_floating_point(a.dtype())) {
    return power(a.to(DType::float64), b.to(DType::float64)).to(a.dtype());
  }
  return power(a, b.to(a.dtype())).to(a.dtype());
}
// Integers keep their values; ExTensor's functions of floats would convert them.
template <Unary function>
Tensor on_floats(const Tensor& x) {
  return is_floating_point(x.dtype()) ? function(x) : x;
}
Tensor softsign(const Tensor& x) { return x / (abs(x) + 1); }
Tensor same_dtype_where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return where(condition, a, b);
}

Kernel translate_mod(NodeReader& node) {
  if (!node.flag("fmod", false)) return binary<modulo>(node);
  // The sign is that of the dividend.
  return [](Arguments x) {
    const Tensor rest = modulo(abs(x[0]), abs(x[1]));
    return Results{where(less(x[0], 0), negative(rest), rest)};
  };
}

Kernel translate_bit_shift(NodeReader& node) {
  const std::string direction = node.text("direction", "");
  if (direction == "LEFT") return binary<bitwise_left_shift>(node);
  if (direction == "RIGHT") return binary<bitwise_right_shift>(node);
  node.refuse("attribute direction is '", direction, "' (allowed: LEFT, RIGHT)");
}

Kernel translate_where(NodeReader&) {
  return [](Arguments x) {
    return Results{same_dtype_where(beside(x[0], x[1]), beside(x[1], x[2]), beside(x[2], x[1]))};
  };
}

Kernel translate_cast(NodeReader& node) {
  node.ignore("saturate");  // of 8-bit floats, which ExTensor does not have
  const std::int64_t to = node.integer("to");
  const auto dtype = dtype_of_number(to);
  if (!dtype) node.refuse("it converts to ", type_text(to), ", which ExTensor does not have");
  return [dtype = *dtype](Arguments x) { return Results{x[0].to(dtype)}; };
}

Kernel translate_cast_like(NodeReader& node) {
  node.ignore("saturate");
  return [](Arguments x) { return Results{x[0].to(x[1].dtype())}; };
}

// Bounds are inputs since opset 11, and attributes before.
Kernel translate_clip(NodeReader& node) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const bool has_low = node.has("min"), has_high = node.has("max");
  const double low = node.real("min", -infinity), high = node.real("max", infinity);
  return [=](Arguments x) {
    Tensor y = x[0];
    for (const Tensor& bound : x.subspan(1)) {
      if (!bound.defined() || (bound.numel() == 1 && bound.dtype() == y.dtype())) continue;
      throw ValueError(message("Clip: a bound is ", bound.dtype(), " of shape ", bound.shape(),
                               " (allowed: one ", y.dtype(), ")"));
    }
    // The op, whose gradient at a bound is 1. One number may have axes, which the result has not.
    const auto bound = [&](std::size_t k) {
      return k < x.size() && x[k].defined() ? beside(x[k].reshape(Shape{}), y) : Tensor();
    };
    const Tensor least = bound(1), most = bound(2);
    if (least.defined() || most.defined()) y = clip(y, least, most);
    if (has_low || has_high) y = clip(y, low, high);
    return Results{y};
  };
}

// ---- activations with attributes

Kernel translate_leaky_relu(NodeReader& node) {
  const double alpha = node.real("alpha", 0.01);
  return [=](Arguments x) { return Results{leaky_relu(x[0], alpha)}; };
}
Kernel translate_elu(NodeReader& node) {
  const double alpha = node.real("alpha", 1);
  return [=](Arguments x) { return Results{elu(x[0], alpha)}; };
}
Kernel translate_celu(NodeReader& node) {
  const double alpha = node.real("alpha", 1);
  return [=](Arguments x) { return Results{elu(x[0] / alpha, 1.0) * alpha}; };
}
Kernel translate_selu(NodeReader& node) {
  const double alpha = node.real("alpha", 1.67326319217681884765625),
               gamma = node.real("gamma", 1.05070102214813232421875);
  // The constants of selu, as the floats that files hold.
  const bool standard =
      std::abs(alpha - 1.6732632423543772) < 1e-6 && std::abs(gamma - 1.0507009873554805) < 1e-6;
  return [=](Arguments x) { return Results{standard ? selu(x[0]) : elu(x[0], alpha) * gamma}; };
}
Kernel translate_hard_sigmoid(NodeReader& node) {
  const double alpha = node.real("alpha", 0.2), beta = node.real("beta", 0.5);
  const bool standard = std::abs(alpha - 1.0 / 6) < 1e-7 && beta == 0.5;
  return [=](Arguments x) {
    return Results{standard ? hard_sigmoid(x[0]) : clip(x[0] * alpha + beta, 0, 1)};
  };
}
Kernel translate_thresholded_relu(NodeReader& node) {
  const double alpha = node.real("alpha", 1);
  return [=](Arguments x) { return Results{where(greater(x[0], alpha), x[0], zeros_like(x[0]))}; };
}
Kernel translate_gelu(NodeReader& node) {
  const std::string approximate = node.text("approximate", "none");
  if (approximate == "none") return unary<gelu>(node);
  if (approximate == "tanh") return unary<gelu_tanh>(node);
  node.refuse("attribute approximate is '", approximate, "' (allowed: none, tanh)");
}
Kernel translate_softplus(NodeReader&) {
  return [](Arguments x) { return Results{softplus(x[0])}; };
}
Kernel translate_is_inf(NodeReader& node) {
  const bool negative = node.flag("detect_negative", true),
             positive = node.flag("detect_positive", true);
  return [=](Arguments x) {
    Tensor found = isinf(x[0]);
    if (!negative) found = logical_and(found, greater(x[0], 0));
    if (!positive) found = logical_and(found, less(x[0], 0));
    return Results{found};
  };
}

constexpr ImportRule rules[] = {
    {"Identity", 1, 1, unary<identity>},
    {"Neg", 1, 1, unary<negative>},
    {"Abs", 1, 1, unary<abs>},
    {"Sign", 1, 1, unary<sign>},
    {"Reciprocal", 1, 1, unary<reciprocal>},
    {"Ceil", 1, 1, unary<on_floats<ceil>>},
    {"Floor", 1, 1, unary<on_floats<floor>>},
    {"Round", 1, 1, unary<on_floats<round>>},
    {"Exp", 1, 1, unary<exp>},
    {"Log", 1, 1, unary<log>},
    {"Sqrt", 1, 1, unary<sqrt>},
    {"Sin", 1, 1, unary<sin>},
    {"Cos", 1, 1, unary<cos>},
    {"Tan", 1, 1, unary<tan>},
    {"Asin", 1, 1, unary<asin>},
    {"Acos", 1, 1, unary<acos>},
    {"Atan", 1, 1, unary<atan>},
    {"Sinh", 1, 1, unary<sinh>},
    {"Cosh", 1, 1, unary<cosh>},
    {"Tanh", 1, 1, unary<tanh>},
    {"Asinh", 1, 1, unary<asinh>},
    {"Acosh", 1, 1, unary<acosh>},
    {"Atanh", 1, 1, unary<atanh>},
    {"Erf", 1, 1, unary<erf>},
    {"Relu", 1, 1, unary<relu>},
    {"Sigmoid", 1, 1, unary<sigmoid>},
    {"Softplus", 1, 1, translate_softplus},
    {"Softsign", 1, 1, unary<softsign>},
    {"Mish", 1, 1, unary<mish>},
    {"HardSwish", 1, 1, unary<hard_swish>},
    {"LeakyRelu", 1, 1, translate_leaky_relu},
    {"Elu", 1, 1, translate_elu},
    {"Celu", 1, 1, translate_celu},
    {"Selu", 1, 1, translate_selu},
    {"HardSigmoid", 1, 1, translate_hard_sigmoid},
    {"ThresholdedRelu", 1, 1, translate_thresholded_relu},
    {"Gelu", 1, 1, translate_gelu},
    {"PRelu", 2, 2, binary<prelu_of>},
    {"Add", 2, 2, binary<add>},
    {"Sub", 2, 2, binary<subtract>},
    {"Mul", 2, 2, binary<multiply>},
    {"Div", 2, 2, binary<quotient>},
    {"Pow", 2, 2, binary<raised>},
    {"Mod", 2, 2, translate_mod},
    {"Max", 1, any_number, folded<maximum>},
    {"Min", 1, any_number, folded<minimum>},
    {"Sum", 1, any_number, folded<add>},
    {"Mean", 1, any_number, translate_mean},
    {"Equal", 2, 2, binary<equal>},
    {"Less", 2, 2, binary<less>},
    {"LessOrEqual", 2, 2, binary<less_equal>},
    {"Greater", 2, 2, binary<greater>},
    {"GreaterOrEqual", 2, 2, binary<greater_equal>},
    {"And", 2, 2, binary<logical_and>},
    {"Or", 2, 2, binary<logical_or>},
    {"Xor", 2, 2, binary<logical_xor>},
    {"Not", 1, 1, unary<logical_not>},
    {"BitwiseAnd", 2, 2, binary<bitwise_and>},
    {"BitwiseOr", 2, 2, binary<bitwise_or>},
    {"BitwiseXor", 2, 2, binary<bitwise_xor>},
    {"BitwiseNot", 1, 1, unary<bitwise_invert>},
    {"BitShift", 2, 2, translate_bit_shift},
    {"IsNaN", 1, 1, unary<isnan>},
    {"IsInf", 1, 1, translate_is_inf},
    {"Where", 3, 3, translate_where},
    {"Cast", 1, 1, translate_cast},
    {"CastLike", 2, 2, translate_cast_like},
    {"Clip", 1, 3, translate_clip},
};

}  // namespace

const std::span<const ImportRule> elementwise_import_rules = rules;

}  // namespace extensor::onnx
