// Elementwise losses. A row in backend/losses.def defines each of them completely; its functions
// below are generated from the row.
#include "extensor/losses.h"

#include "backend/backend.h"
#include "backend/checks.h"
#include "core/check.h"
#include "extensor/elementwise.h"
#include "extensor/reduction.h"
#include "ops/chunks.h"
#include "ops/launch.h"
#include "ops/loss_support.h"
#include "ops/registry.h"

namespace extensor {

using detail::message;

namespace ops {

backend::LossReduction loss_reduction(Reduction reduction) {
  switch (reduction) {
    case Reduction::mean:
      return backend::LossReduction::mean;
    case Reduction::sum:
      return backend::LossReduction::sum;
    case Reduction::none:
      return backend::LossReduction::none;
  }
  throw ValueError(
      message("losses: reduction is ", static_cast<int>(reduction), ", must be mean, sum or none"));
}

Tensor reduced_loss(const Tensor& values, Reduction reduction) {
  loss_reduction(reduction);
  if (reduction == Reduction::none) return values;
  return reduction == Reduction::sum ? sum(values) : mean(values);
}

double loss_scale(std::int64_t count, Reduction reduction) {
  return reduction == Reduction::mean ? 1 / static_cast<double>(count) : 1;
}

void check_parameter(const char* operation, const char* name, double value, bool allowed,
                     const char* rule) {
  if (allowed) return;
  throw ValueError(message(operation, ": ", name, " is ", value, ", must be ", rule));
}

bool wants_gradient(const Tensor& target, bool target_gradient) {
  return target_gradient && is_floating_point(target.dtype());
}

Tensor loss_gradient_input(const char* operation, const Tensor& grad_output, const Shape& shape,
                           Reduction reduction, DType dtype) {
  loss_reduction(reduction);
  check_grad_output(operation, grad_output, loss_shape(shape, reduction));
  return grad_output.to(compute_dtype(dtype)).contiguous();
}

}  // namespace ops

// ---- derivatives of the rows on dual numbers

namespace expression {
namespace {

#define EXTENSOR_WORD inline
#include "backend/loss_words.h"
#undef EXTENSOR_WORD

using Derivative = Dual(const double* parameters, const Dual& x, const Dual& y);
struct LossDerivatives {
  Derivative* of[2];  // along x and along y
};

#define EXTENSOR_DERIVATIVE(expression)                             \
  [](const double* parameters, [[maybe_unused]] const Dual& x,      \
     [[maybe_unused]] const Dual& y) -> Dual {                      \
    [[maybe_unused]] const Dual p(parameters[0]), q(parameters[1]); \
    return expression;                                              \
  }
constexpr LossDerivatives loss_derivatives[] = {
#define LOSS(name, forward, of_x, of_y) {{EXTENSOR_DERIVATIVE(of_x), EXTENSOR_DERIVATIVE(of_y)}},
#include "backend/losses.def"
};
#undef EXTENSOR_DERIVATIVE

}  // namespace
}  // namespace expression

namespace {

using backend::check_number;
using backend::immediate_check;
using backend::LossCall;
using backend::LossOp;
using backend::take_note;
using backend::throw_not_allowed;
using backend::ValueCheck;
using expression::Dual;
using expression::Value;
using namespace ops;

// The parameters, named as in the rows of losses.def.
struct LossAttributes {
  LossOp row;
  Reduction reduction;
  double p = 0, q = 0;
};

struct LossBackwardAttributes {
  LossOp row;
  Reduction reduction;
  double p = 0, q = 0;
  bool of_x = true, of_y = true;  // requested gradients
  bool checked = false;           // the forward has checked the range of the same values
};

using LossBackwardOp = OpOf<LossBackwardAttributes, Results, 3>;
const LossBackwardOp& backward_op(LossOp row);

DType common_float(const char* operation, const Tensor& input, const Tensor& target) {
  const DType dtype = is_floating_point(input.dtype()) ? input.dtype() : default_float;
  if (!is_floating_point(target.dtype())) return dtype;
  return promote_types(dtype, target.dtype(), operation);
}

// Dense input and target, in their common float dtype.
struct Operands {
  Tensor x, y;

  Operands(const char* operation, const Tensor& input, const Tensor& target) {
    if (!(input.shape() == target.shape())) {
      throw ShapeError(message(operation, ": shapes differ: input is ", input.shape(),
                               ", target is ", target.shape()));
    }
    const DType dtype = common_float(operation, input, target);
    x = input.to(dtype).contiguous();
    y = target.to(dtype).contiguous();
  }

  template <class Attributes>
  LossCall call(const Attributes& attributes) const {
    LossCall call{};
    call.op = attributes.row;
    call.reduction = loss_reduction(attributes.reduction);
    call.dtype = x.dtype();
    call.numel = x.numel();
    call.x = detail::dense_data(x);
    call.y = detail::dense_data(y);
    call.parameters[0] = attributes.p;
    call.parameters[1] = attributes.q;
    return call;
  }
};

// Runs the kernel of a loss. Binary cross-entropy is defined on [0, 1] only: a label of 2, or
// logits passed as probabilities, would be clamped silently. So the kernel checks the range while
// it reads. The CPU throws ValueError before it returns results, other devices at the next wait.
// NaN passes and yields NaN.
void run_loss(const Run& run, const LossCall& call, bool checked) {
  if (call.op != LossOp::binary_cross_entropy || checked) return run.kernels().loss(call);
  ValueCheck check{.kind = ValueCheck::Kind::unit_interval,
                   .operation = run.name(),
                   .argument = "p",
                   .dtype = call.dtype};
  LossCall looking = call;
  if (run.device == cpu_device) {
    looking.check_x = immediate_check;
    looking.check_y = immediate_check + 1;
    run.kernels().loss(looking);
    const auto found = take_note();
    if (!found) return;
    if (found->check == looking.check_y) check.argument = "y";
    throw_not_allowed(check, *found);
  }
  looking.check_x = check_number(check);
  check.argument = "y";
  looking.check_y = check_number(check);
  run.kernels().loss(looking);
}

Tensor loss_forward(const Run& run, const LossAttributes& attributes, const Tensor& x,
                    const Tensor& y) {
  const Operands operands(run.name(), x, y);
  LossCall call = operands.call(attributes);
  Tensor result = run.empty(loss_shape(x.shape(), attributes.reduction), operands.x.dtype());
  call.out = result.impl().data;
  run_loss(run, call, false);
  return result;
}

Gradients loss_gradient(const GradientCall& call, const LossAttributes& attributes) {
  const auto& [row, reduction, p, q] = attributes;
  return dispatch(backward_op(row), {row, reduction, p, q, call.needs(0), call.needs(1), true},
                  call.grad(), call.input(0), call.input(1));
}

Results loss_backward(const Run& run, const LossBackwardAttributes& attributes,
                      const Tensor& grad_output, const Tensor& x, const Tensor& y) {
  if (attributes.of_x) check_float(run.name(), "input", x);
  const Operands operands(run.name(), x, y);
  LossCall call = operands.call(attributes);
  const Tensor g = loss_gradient_input(run.name(), grad_output, x.shape(), attributes.reduction,
                                       operands.x.dtype());
  Results results(2);
  if (attributes.of_x) {
    results[0] = run.empty(x.shape(), operands.x.dtype());
    call.gradient_x = results[0].impl().data;
  }
  if (wants_gradient(y, attributes.of_y)) {
    results[1] = run.empty(x.shape(), operands.x.dtype());
    call.gradient_y = results[1].impl().data;
  }
  call.g = detail::dense_data(g);
  if (x.numel() != 0) run_loss(run, call, attributes.checked);
  if (attributes.of_x) results[0] = results[0].to(x.dtype());
  if (results[1].defined()) results[1] = results[1].to(y.dtype());
  return results;
}

// With the gradients a and b of the backward's results, Σ a · of_x + b · of_y is the gradient of
// grad_output; the gradients of x and y are its derivatives along them, times grad_output.
Gradients loss_backward_gradient(const GradientCall& call,
                                 const LossBackwardAttributes& attributes) {
  const Tensor &x = call.input(1), &y = call.input(2);
  const bool of_g = call.needs(0), of_x = call.needs(1), of_y = call.needs(2);
  const DType compute = compute_dtype(common_float(call.name(), x, y));
  Tensor g;
  if (of_x || of_y) {
    g = multiply(call.input(0).to(compute), loss_scale(x.numel(), attributes.reduction));
  }
  const Tensor inputs[] = {call.grad(0), call.grad(1), g, x, y};
  const DType outputs[] = {compute, compute, compute};
  const double parameters[] = {attributes.p, attributes.q};
  const auto& derivatives = expression::loss_derivatives[static_cast<int>(attributes.row)];
  const auto add = [](Value& sum, const Value& term) {
    sum = sum.is_zero() ? term : term.is_zero() ? sum : sum + term;
  };
  std::vector<Tensor> results = evaluate_in_chunks(
      {call.name(), x.shape(), inputs, outputs, compute},
      [&](std::span<const Value> in, std::span<Value> out) {
        out[0] = out[1] = out[2] = 0;
        for (int k = 0; k < 2; ++k) {
          const Value& direction = in[static_cast<std::size_t>(k)];
          if (direction.is_zero()) continue;
          const auto& derivative = *derivatives.of[k];
          const Dual x_only(in[3]), y_only(in[4]);
          if (of_g) {
            add(out[0], direction * derivative(parameters, x_only, y_only).value());
          }
          if (of_x) {
            add(out[1],
                in[2] * derivative(parameters, Dual(in[3], direction), y_only).derivative());
          }
          if (of_y) {
            add(out[2],
                in[2] * derivative(parameters, x_only, Dual(in[4], direction)).derivative());
          }
        }
      });
  Gradients gradients(3);
  if (of_g) gradients[0] = reduced_loss(results[0], attributes.reduction);
  if (of_x) gradients[1] = results[1];
  if (of_y) gradients[2] = results[2];
  return gradients;
}

std::pair<Tensor, Tensor> as_pair(Results results) {
  return {std::move(results[0]), std::move(results[1])};
}

consteval auto define_loss(const char* name) {
  return define<loss_forward, loss_gradient>({.name = name,
                                              .inputs = {"input", "target"},
                                              .reads = {input(0) | input(1), input(0) | input(1)},
                                              .cast = Cast::up});
}
consteval LossBackwardOp define_loss_backward(const char* name) {
  constexpr Reads all = input(0) | input(1) | input(2);
  return define<loss_backward, loss_backward_gradient>(
      {.name = name,
       .inputs = {"grad_output", "input", "target"},
       .reads = {input(1) | input(2), all, all}});
}

}  // namespace

// ---- the rows

// clang-format off
#define EXTENSOR_COMMA ,
#define EXTENSOR_LOSS(name, PARAMETERS, CHECK, ROW, ARGUMENTS)                                       \
  namespace {                                                                                        \
  constexpr auto name##_op = define_loss(#name);                                                     \
  constexpr auto name##_backward_op = define_loss_backward(#name "_backward");                       \
  }                                                                                                  \
  Tensor name(const Tensor& x, const Tensor& y, Reduction reduction PARAMETERS) {                    \
    [[maybe_unused]] constexpr const char* operation = #name;                                        \
    CHECK                                                                                            \
    return dispatch(name##_op, {ROW, reduction ARGUMENTS}, x, y);                            \
  }                                                                                                  \
  std::pair<Tensor, Tensor> name##_backward(const Tensor& grad_output, const Tensor& x,              \
                                            const Tensor& y, Reduction reduction PARAMETERS,         \
                                            StrictBool target_gradient) {                            \
    [[maybe_unused]] constexpr const char* operation = #name "_backward";                            \
    CHECK                                                                                            \
    LossBackwardAttributes attributes{ROW, reduction ARGUMENTS};                             \
    attributes.of_y = target_gradient;                                                               \
    return as_pair(dispatch(name##_backward_op, attributes, grad_output, x, y));                     \
  }
#define EXTENSOR_CHECK(parameter, allowed, rule) \
  check_parameter(operation, #parameter, parameter, allowed, rule);
#define LOSS(name, ...) EXTENSOR_LOSS(name, , , LossOp::name, )
#define LOSS_1(name, p, allowed, rule, ...)                                                          \
  EXTENSOR_LOSS(name, EXTENSOR_COMMA StrictDouble p, EXTENSOR_CHECK(p, allowed, rule), LossOp::name, \
                EXTENSOR_COMMA p)
#define LOSS_2(name, p, p_allowed, p_rule, q, q_allowed, q_rule, ...)                                \
  EXTENSOR_LOSS(name, EXTENSOR_COMMA StrictDouble p EXTENSOR_COMMA StrictDouble q,                   \
                EXTENSOR_CHECK(p, p_allowed, p_rule) EXTENSOR_CHECK(q, q_allowed, q_rule), LossOp::name, \
                EXTENSOR_COMMA p EXTENSOR_COMMA q)
#define LOSS_FLAG(name, flag, ...)                                                                   \
  EXTENSOR_LOSS(name, EXTENSOR_COMMA StrictBool flag,                                                \
                const LossOp row = flag ? LossOp::name##_with_##flag : LossOp::name;, row, )
#include "backend/losses.def"
// clang-format on

namespace {

const LossBackwardOp& backward_op(LossOp row) {
  static constexpr const LossBackwardOp* rows[] = {
#define LOSS(name, ...) &name##_backward_op,
#define LOSS_FLAG(name, ...) &name##_backward_op, &name##_backward_op,
#include "backend/losses.def"
  };
  return *rows[static_cast<int>(row)];
}

constexpr const Op* all_losses[] = {
#define LOSS(name, ...) &name##_op, &name##_backward_op,
#define LOSS_FLAG(name, ...) LOSS(name)
#include "backend/losses.def"
};

}  // namespace

constinit const OpList ops::loss_ops = all_losses;

}  // namespace extensor
