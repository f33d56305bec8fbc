// The losses that work element by element: one journey for all, see backend/losses.def.
#include "extensor/losses.h"

#include "backend/backend.h"
#include "core/check.h"
#include "core/graph.h"
#include "core/make_tensor.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/reduction.h"
#include "ops/autocast.h"
#include "ops/launch.h"
#include "ops/loss_support.h"

namespace extensor {

using backend::LossCall;
using backend::LossOp;
using detail::message;
using ops::check_float;
using ops::wants_gradient;

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

namespace {

// Parameters as the rows of losses.def name them.
struct Parameters {
  double p = 0, q = 0;
};

// Input and target, dense, in their common float dtype.
struct Operands {
  Tensor x, y;

  Operands(const char* operation, const Tensor& input, const Tensor& target) {
    const ops::Source both[] = {input, target};
    ops::common_device(operation, both);
    if (!(input.shape() == target.shape())) {
      throw ShapeError(message(operation, ": shapes differ: input is ", input.shape(),
                               ", target is ", target.shape()));
    }
    DType dtype = is_floating_point(input.dtype()) ? input.dtype() : default_float;
    if (is_floating_point(target.dtype())) {
      dtype = promote_types(dtype, target.dtype(), operation);
    }
    x = input.to(dtype).contiguous();
    y = target.to(dtype).contiguous();
  }

  LossCall call(LossOp op, Reduction reduction, Parameters parameters) const {
    LossCall call{};
    call.op = op;
    call.reduction = ops::loss_reduction(reduction);
    call.dtype = x.dtype();
    call.numel = x.numel();
    call.x = x.impl().data;
    call.y = y.impl().data;
    call.parameters[0] = parameters.p;
    call.parameters[1] = parameters.q;
    return call;
  }
};

// Runs the kernel of a loss. Binary cross-entropy is defined on [0, 1] only: a label of 2, or
// logits given for probabilities, would be clamped without a word. The kernel looks at the range
// while it reads; ValueError, before anybody sees its results. NaN passes, and gives NaN.
void run(const LossCall& call, const char* operation, const Operands& operands, bool checked) {
  const auto& backend = backend::backend_for(operands.x.device());
  if (call.op != LossOp::binary_cross_entropy || checked) return backend.loss(call);
  std::atomic<bool> outside{false};
  LossCall looking = call;
  looking.outside_unit_interval = &outside;
  backend.loss(looking);
  if (!outside) return;
  const auto refuse_outside = [&](const char* argument, const Tensor& values) {
    const Tensor wrong = less(values, 0) | greater(values, 1);
    const auto first = argmax(wrong).item<std::int64_t>();
    if (!wrong.flatten()[first].item<bool>()) return;
    throw ValueError(message(operation, ": ", argument, " is ",
                             values.flatten()[first].item<double>(), " at element ", first,
                             " (allowed: 0 to 1)"));
  };
  refuse_outside("p", operands.x);
  refuse_outside("y", operands.y);
}

// Which gradients are asked for, and whether the forward has looked at the same values already.
struct Wanted {
  bool x = true, y = true;
  bool checked = false;
};

constexpr const char* backward_names[] = {
#define LOSS(name, ...) #name "_backward",
#include "backend/losses.def"
};

std::pair<Tensor, Tensor> backward(LossOp op, const char* operation, const Tensor& grad_output,
                                   const Tensor& x, const Tensor& y, Reduction reduction,
                                   Wanted wanted, Parameters parameters = {});
// The public double backward of the loss.
LossSecondGradients double_backward(LossOp op, const Tensor& grad_grad_x, const Tensor& grad_grad_y,
                                    const Tensor& grad_output, const Tensor& x, const Tensor& y,
                                    Reduction reduction, Parameters parameters);

Tensor forward(LossOp op, const char* operation, const Tensor& x, const Tensor& y,
               Reduction reduction, Parameters parameters = {}) {
  if (ops::raises(x) || ops::raises(y)) {
    return forward(op, operation, ops::raised(x), ops::raised(y), reduction, parameters);
  }
  if (detail::records(x, y)) {
    return detail::record(
        operation, {x, y},
        detail::unrecorded([&] { return forward(op, operation, x, y, reduction, parameters); }),
        [=, x = detail::Saved(x), y = detail::Saved(y)](const Tensor& g,
                                                        detail::Node& node) -> detail::Gradients {
          return backward(op, backward_names[static_cast<int>(op)], g, x.get(node), y.get(node),
                          reduction, {node.needs(0), node.needs(1), true}, parameters);
        });
  }
  const Operands operands(operation, x, y);
  LossCall call = operands.call(op, reduction, parameters);
  Tensor result = detail::make_empty(operation, ops::loss_shape(x.shape(), reduction),
                                     operands.x.dtype(), x.device());
  call.out = result.impl().data;
  run(call, operation, operands, false);
  return result;
}

std::pair<Tensor, Tensor> backward(LossOp op, const char* operation, const Tensor& grad_output,
                                   const Tensor& x, const Tensor& y, Reduction reduction,
                                   Wanted wanted, Parameters parameters) {
  if (detail::records(grad_output, x, y)) {
    const std::vector<Tensor> gradients = detail::recorded_all(
        operation,
        [&] {
          auto [of_x, of_y] =
              backward(op, operation, grad_output, x, y, reduction, wanted, parameters);
          return std::vector{of_x, of_y};
        },
        [=](const detail::Gradients& v, const detail::Node&, const Tensor& g, const Tensor& x,
            const Tensor& y) -> detail::Gradients {
          const LossSecondGradients second =
              double_backward(op, v[0], v[1], g, x, y, reduction, parameters);
          return {second.grad_output, second.input, second.target};
        },
        grad_output, x, y);
    return {gradients[0], gradients[1]};
  }
  if (wanted.x) check_float(operation, "input", x);
  const Operands operands(operation, x, y);
  LossCall call = operands.call(op, reduction, parameters);
  const Tensor g =
      ops::loss_gradient_input(operation, grad_output, x.shape(), reduction, operands.x.dtype());
  const auto gradient_of = [&](bool is_wanted, std::byte*& data) {
    if (!is_wanted) return Tensor();
    Tensor gradient = detail::make_empty(operation, x.shape(), operands.x.dtype(), x.device());
    data = gradient.impl().data;
    return gradient;
  };
  const Tensor of_x = gradient_of(wanted.x, call.gradient_x);
  const Tensor of_y = gradient_of(wants_gradient(y, wanted.y), call.gradient_y);
  call.g = g.impl().data;
  if (x.numel() != 0) run(call, operation, operands, wanted.checked);
  return {of_x.defined() ? of_x.to(x.dtype()) : of_x, of_y.defined() ? of_y.to(y.dtype()) : of_y};
}

void check_parameter(const char* operation, const char* name, double value, bool allowed,
                     const char* rule) {
  if (allowed) return;
  throw ValueError(message(operation, ": ", name, " is ", value, ", must be ", rule));
}

// What a double backward starts from, in the dtype that computes; undefined gradients are 0.
struct SecondOrder {
  Tensor x, y, a, b;  // input, target, and the gradients of their gradients
  Tensor g;           // grad_output, scaled as the reduction does
  Reduction reduction;
  DType output_dtype, input_dtype, target_dtype;

  SecondOrder(const char* operation, const Tensor& grad_grad_x, const Tensor& grad_grad_y,
              const Tensor& grad_output, const Tensor& input, const Tensor& target,
              Reduction reduction_)
      : reduction(reduction_),
        output_dtype(grad_output.dtype()),
        input_dtype(input.dtype()),
        target_dtype(target.dtype()) {
    check_float(operation, "input", input);
    const Operands operands(operation, input, target);
    const DType wide = ops::compute_dtype(operands.x.dtype());
    x = operands.x.to(wide);
    y = operands.y.to(wide);
    a = second_gradient(operation, "grad_grad_x", grad_grad_x);
    b = second_gradient(operation, "grad_grad_y", grad_grad_y);
    g = multiply(ops::loss_gradient_input(operation, grad_output, input.shape(), reduction, wide),
                 ops::loss_scale(input.numel(), reduction));
  }

  // Of the first derivatives of one loss, by x and by y, and the second ones; undefined: 0.
  LossSecondGradients result(const std::pair<Tensor, Tensor>& first, const Tensor& xx,
                             const Tensor& xy, const Tensor& yy) const {
    const Tensor of_g = a * first.first + b * first.second;
    return {ops::reduced_loss(of_g, reduction).to(output_dtype),
            (g * along(xx, xy)).to(input_dtype),
            is_floating_point(target_dtype) ? (g * along(xy, yy)).to(target_dtype) : Tensor()};
  }
  // Of a loss of x − y.
  LossSecondGradients result(const std::pair<Tensor, Tensor>& first,
                             const Tensor& curvature) const {
    if (!curvature.defined()) return result(first, {}, {}, {});
    return result(first, curvature, negative(curvature), curvature);
  }

  // The first derivatives of each loss by itself are what the backward makes of this.
  Tensor one() const { return ones_like(x); }

 private:
  Tensor along(const Tensor& of_a, const Tensor& of_b) const {
    if (!of_a.defined() && !of_b.defined()) return zeros_like(x);
    if (!of_b.defined()) return a * of_a;
    return of_a.defined() ? a * of_a + b * of_b : b * of_b;
  }
  Tensor second_gradient(const char* operation, const char* argument, const Tensor& given) const {
    if (!given.defined()) return zeros_like(x);
    ops::check_gradient(operation, argument, given, x.shape());
    return given.to(x.dtype());
  }
};

}  // namespace

// ---- binary cross-entropy
// --------------------------------------------------------------------------

Tensor binary_cross_entropy(const Tensor& p, const Tensor& y, Reduction reduction) {
  return forward(LossOp::binary_cross_entropy, "binary_cross_entropy", p, y, reduction);
}

std::pair<Tensor, Tensor> binary_cross_entropy_backward(const Tensor& grad_output, const Tensor& p,
                                                        const Tensor& y, Reduction reduction,
                                                        StrictBool target_gradient) {
  return backward(LossOp::binary_cross_entropy, "binary_cross_entropy_backward", grad_output, p, y,
                  reduction, {true, target_gradient});
}

// Where p is clamped, the gradients do not depend on it.
LossSecondGradients binary_cross_entropy_double_backward(const Tensor& grad_grad_p,
                                                         const Tensor& grad_grad_y,
                                                         const Tensor& grad_output, const Tensor& p,
                                                         const Tensor& y, Reduction reduction) {
  constexpr const char* operation = "binary_cross_entropy_double_backward";
  const SecondOrder s(operation, grad_grad_p, grad_grad_y, grad_output, p, y, reduction);
  const double least = backend::probability_margin, most = 1 - least;
  const Tensor inside = clip(s.x, least, most), rest = clip(1 - s.x, least, most);
  LossSecondGradients result =
      s.result(backward(LossOp::binary_cross_entropy, operation, s.one(), s.x, s.y, Reduction::none,
                        {true, true}),
               s.y / square(inside) + (1 - s.y) / square(rest), -1 / (inside * rest), {});
  const Tensor is_inside = greater_equal(s.x, least) & less_equal(s.x, most);
  result.input = where(is_inside, result.input, zeros_like(result.input));
  return result;
}

Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& y, Reduction reduction) {
  return forward(LossOp::binary_cross_entropy_with_logits, "binary_cross_entropy_with_logits", x, y,
                 reduction);
}

std::pair<Tensor, Tensor> binary_cross_entropy_with_logits_backward(const Tensor& grad_output,
                                                                    const Tensor& x,
                                                                    const Tensor& y,
                                                                    Reduction reduction,
                                                                    StrictBool target_gradient) {
  return backward(LossOp::binary_cross_entropy_with_logits,
                  "binary_cross_entropy_with_logits_backward", grad_output, x, y, reduction,
                  {true, target_gradient});
}

LossSecondGradients binary_cross_entropy_with_logits_double_backward(
    const Tensor& grad_grad_x, const Tensor& grad_grad_y, const Tensor& grad_output,
    const Tensor& x, const Tensor& y, Reduction reduction) {
  const SecondOrder s("binary_cross_entropy_with_logits_double_backward", grad_grad_x, grad_grad_y,
                      grad_output, x, y, reduction);
  return s.result(binary_cross_entropy_with_logits_backward(s.one(), s.x, s.y, Reduction::none),
                  sigmoid(s.x) * sigmoid(negative(s.x)), negative(s.one()), {});
}

// ---- distances between two numbers
// -----------------------------------------------------------------

Tensor mean_squared_error(const Tensor& x, const Tensor& y, Reduction reduction) {
  return forward(LossOp::mean_squared_error, "mean_squared_error", x, y, reduction);
}

std::pair<Tensor, Tensor> mean_squared_error_backward(const Tensor& grad_output, const Tensor& x,
                                                      const Tensor& y, Reduction reduction,
                                                      StrictBool target_gradient) {
  return backward(LossOp::mean_squared_error, "mean_squared_error_backward", grad_output, x, y,
                  reduction, {true, target_gradient});
}

LossSecondGradients mean_squared_error_double_backward(const Tensor& grad_grad_x,
                                                       const Tensor& grad_grad_y,
                                                       const Tensor& grad_output, const Tensor& x,
                                                       const Tensor& y, Reduction reduction) {
  const SecondOrder s("mean_squared_error_double_backward", grad_grad_x, grad_grad_y, grad_output,
                      x, y, reduction);

  return s.result(mean_squared_error_backward(s.one(), s.x, s.y, Reduction::none),
                  multiply(s.one(), 2));
}

Tensor l1_loss(const Tensor& x, const Tensor& y, Reduction reduction) {
  return forward(LossOp::l1_loss, "l1_loss", x, y, reduction);
}

std::pair<Tensor, Tensor> l1_loss_backward(const Tensor& grad_output, const Tensor& x,
                                           const Tensor& y, Reduction reduction,
                                           StrictBool target_gradient) {
  return backward(LossOp::l1_loss, "l1_loss_backward", grad_output, x, y, reduction,
                  {true, target_gradient});
}

LossSecondGradients l1_loss_double_backward(const Tensor& grad_grad_x, const Tensor& grad_grad_y,
                                            const Tensor& grad_output, const Tensor& x,
                                            const Tensor& y, Reduction reduction) {
  const SecondOrder s("l1_loss_double_backward", grad_grad_x, grad_grad_y, grad_output, x, y,
                      reduction);

  return s.result(l1_loss_backward(s.one(), s.x, s.y, Reduction::none), {});
}

namespace {
void check_beta(const char* operation, double beta) {
  check_parameter(operation, "beta", beta, beta >= 0, "0 or more");
}
void check_delta(const char* operation, double delta) {
  check_parameter(operation, "delta", delta, delta > 0, "greater than 0");
}
}  // namespace

Tensor smooth_l1_loss(const Tensor& x, const Tensor& y, Reduction reduction, StrictDouble beta) {
  check_beta("smooth_l1_loss", beta);
  return forward(LossOp::smooth_l1_loss, "smooth_l1_loss", x, y, reduction, {beta});
}

std::pair<Tensor, Tensor> smooth_l1_loss_backward(const Tensor& grad_output, const Tensor& x,
                                                  const Tensor& y, Reduction reduction,
                                                  StrictDouble beta, StrictBool target_gradient) {
  check_beta("smooth_l1_loss_backward", beta);
  return backward(LossOp::smooth_l1_loss, "smooth_l1_loss_backward", grad_output, x, y, reduction,
                  {true, target_gradient}, {beta});
}

LossSecondGradients smooth_l1_loss_double_backward(const Tensor& grad_grad_x,
                                                   const Tensor& grad_grad_y,
                                                   const Tensor& grad_output, const Tensor& x,
                                                   const Tensor& y, Reduction reduction,
                                                   StrictDouble beta) {
  check_beta("smooth_l1_loss_double_backward", beta);
  const SecondOrder s("smooth_l1_loss_double_backward", grad_grad_x, grad_grad_y, grad_output, x, y,
                      reduction);

  const Tensor is_square = less(abs(s.x - s.y), beta).to(s.x.dtype());
  return s.result(smooth_l1_loss_backward(s.one(), s.x, s.y, Reduction::none, beta),
                  multiply(is_square, beta > 0 ? 1 / beta : 0));
}

Tensor huber_loss(const Tensor& x, const Tensor& y, Reduction reduction, StrictDouble delta) {
  check_delta("huber_loss", delta);
  return forward(LossOp::huber_loss, "huber_loss", x, y, reduction, {delta});
}

std::pair<Tensor, Tensor> huber_loss_backward(const Tensor& grad_output, const Tensor& x,
                                              const Tensor& y, Reduction reduction,
                                              StrictDouble delta, StrictBool target_gradient) {
  check_delta("huber_loss_backward", delta);
  return backward(LossOp::huber_loss, "huber_loss_backward", grad_output, x, y, reduction,
                  {true, target_gradient}, {delta});
}

LossSecondGradients huber_loss_double_backward(const Tensor& grad_grad_x, const Tensor& grad_grad_y,
                                               const Tensor& grad_output, const Tensor& x,
                                               const Tensor& y, Reduction reduction,
                                               StrictDouble delta) {
  check_delta("huber_loss_double_backward", delta);
  const SecondOrder s("huber_loss_double_backward", grad_grad_x, grad_grad_y, grad_output, x, y,
                      reduction);

  return s.result(huber_loss_backward(s.one(), s.x, s.y, Reduction::none, delta),
                  less(abs(s.x - s.y), delta).to(s.x.dtype()));
}

// ---- margins, divergences, focus
// -------------------------------------------------------------------

Tensor hinge_loss(const Tensor& x, const Tensor& y, Reduction reduction, StrictDouble margin) {
  return forward(LossOp::hinge_loss, "hinge_loss", x, y, reduction, {margin});
}

std::pair<Tensor, Tensor> hinge_loss_backward(const Tensor& grad_output, const Tensor& x,
                                              const Tensor& y, Reduction reduction,
                                              StrictDouble margin, StrictBool target_gradient) {
  return backward(LossOp::hinge_loss, "hinge_loss_backward", grad_output, x, y, reduction,
                  {true, target_gradient}, {margin});
}

LossSecondGradients hinge_loss_double_backward(const Tensor& grad_grad_x, const Tensor& grad_grad_y,
                                               const Tensor& grad_output, const Tensor& x,
                                               const Tensor& y, Reduction reduction,
                                               StrictDouble margin) {
  const SecondOrder s("hinge_loss_double_backward", grad_grad_x, grad_grad_y, grad_output, x, y,
                      reduction);

  return s.result(hinge_loss_backward(s.one(), s.x, s.y, Reduction::none, margin), {},
                  negative(less(s.x * s.y, margin).to(s.x.dtype())), {});
}

namespace {
LossOp divergence(bool log_target) {
  return log_target ? LossOp::kl_divergence_of_logarithms : LossOp::kl_divergence;
}
}  // namespace

Tensor kl_divergence(const Tensor& x, const Tensor& y, Reduction reduction, StrictBool log_target) {
  return forward(divergence(log_target), "kl_divergence", x, y, reduction);
}

std::pair<Tensor, Tensor> kl_divergence_backward(const Tensor& grad_output, const Tensor& x,
                                                 const Tensor& y, Reduction reduction,
                                                 StrictBool log_target,
                                                 StrictBool target_gradient) {
  return backward(divergence(log_target), "kl_divergence_backward", grad_output, x, y, reduction,
                  {true, target_gradient});
}

// The gradient of a y of 0 is 0 whatever x is.
LossSecondGradients kl_divergence_double_backward(const Tensor& grad_grad_x,
                                                  const Tensor& grad_grad_y,
                                                  const Tensor& grad_output, const Tensor& x,
                                                  const Tensor& y, Reduction reduction,
                                                  StrictBool log_target) {
  SecondOrder s("kl_divergence_double_backward", grad_grad_x, grad_grad_y, grad_output, x, y,
                reduction);

  const auto first = kl_divergence_backward(s.one(), s.x, s.y, Reduction::none, log_target);
  const Tensor probability = log_target ? exp(s.y) : s.y, nothing = zeros_like(s.x);
  const Tensor is_zero = equal(probability, 0);
  s.b = where(is_zero, nothing, s.b);
  const Tensor yy =
      log_target ? probability * (2 + s.y - s.x) : 1 / where(is_zero, s.one(), probability);
  return s.result(first, {}, log_target ? negative(probability) : negative(s.one()),
                  where(is_zero, nothing, yy));
}

namespace {
void check_focus(const char* operation, double alpha, double gamma) {
  check_parameter(operation, "alpha", alpha, alpha <= 1, "at most 1");
  check_parameter(operation, "gamma", gamma, gamma >= 0, "0 or more");
}
}  // namespace

Tensor focal_loss(const Tensor& x, const Tensor& y, Reduction reduction, StrictDouble alpha,
                  StrictDouble gamma) {
  check_focus("focal_loss", alpha, gamma);
  return forward(LossOp::focal_loss, "focal_loss", x, y, reduction, {alpha, gamma});
}

std::pair<Tensor, Tensor> focal_loss_backward(const Tensor& grad_output, const Tensor& x,
                                              const Tensor& y, Reduction reduction,
                                              StrictDouble alpha, StrictDouble gamma,
                                              StrictBool target_gradient) {
  check_focus("focal_loss_backward", alpha, gamma);
  return backward(LossOp::focal_loss, "focal_loss_backward", grad_output, x, y, reduction,
                  {true, target_gradient}, {alpha, gamma});
}

// The product of w = alpha_t, m = miss^gamma and the cross-entropy e, by the product rule; miss is
// the probability of the other class, y (1 − p) + (1 − y) p. w does not depend on x.
LossSecondGradients focal_loss_double_backward(const Tensor& grad_grad_x, const Tensor& grad_grad_y,
                                               const Tensor& grad_output, const Tensor& x,
                                               const Tensor& y, Reduction reduction,
                                               StrictDouble alpha, StrictDouble gamma) {
  check_focus("focal_loss_double_backward", alpha, gamma);
  const SecondOrder s("focal_loss_double_backward", grad_grad_x, grad_grad_y, grad_output, x, y,
                      reduction);

  const Tensor p = sigmoid(s.x), q = sigmoid(negative(s.x)), slope = p * q, sides = 1 - 2 * s.y;
  const Tensor miss = s.y * q + (1 - s.y) * p, miss_x = sides * slope, miss_y = q - p;
  const Tensor is_zero = equal(miss, 0), nothing = zeros_like(miss);
  const Tensor nonzero = where(is_zero, s.one(), miss);
  // factor · miss^exponent, 0 where miss is.
  const auto term = [&](double factor, double exponent) {
    return factor == 0 ? nothing
                       : where(is_zero, nothing, multiply(power(nonzero, exponent), factor));
  };
  const Tensor m = power(miss, gamma), m1 = term(gamma, gamma - 1),
               m2 = term(gamma * (gamma - 1), gamma - 2);
  const Tensor m_x = m1 * miss_x, m_y = m1 * miss_y;
  const Tensor m_xx = m2 * square(miss_x) + m1 * miss_x * (q - p);
  const Tensor m_xy = m2 * miss_x * miss_y - 2 * m1 * slope, m_yy = m2 * square(miss_y);

  const Tensor e = binary_cross_entropy_with_logits(s.x, s.y, Reduction::none);
  const auto [e_x, e_y] =
      binary_cross_entropy_with_logits_backward(s.one(), s.x, s.y, Reduction::none);
  const double w_y = alpha < 0 ? 0 : 2 * alpha - 1;
  const Tensor w = alpha < 0 ? s.one() : multiply(s.y, w_y) + (1 - alpha);

  const Tensor xx = w * (m_xx * e + 2 * m_x * e_x + m * slope);
  const Tensor xy = w_y * (m_x * e + m * e_x) + w * (m_xy * e + m_x * e_y + m_y * e_x - m);
  const Tensor yy = 2 * w_y * (m_y * e + m * e_y) + w * (m_yy * e + 2 * m_y * e_y);
  return s.result(focal_loss_backward(s.one(), s.x, s.y, Reduction::none, alpha, gamma), xx, xy,
                  yy);
}

namespace {

LossSecondGradients double_backward(LossOp op, const Tensor& a, const Tensor& b, const Tensor& g,
                                    const Tensor& x, const Tensor& y, Reduction reduction,
                                    Parameters parameters) {
  const auto [p, q] = parameters;
  // An input that is not a float has no gradient, but the target's may be asked for.
  const Tensor input = is_floating_point(x.dtype()) ? x : x.to(default_float);
  switch (op) {
    case LossOp::binary_cross_entropy:
      return binary_cross_entropy_double_backward(a, b, g, input, y, reduction);
    case LossOp::binary_cross_entropy_with_logits:
      return binary_cross_entropy_with_logits_double_backward(a, b, g, input, y, reduction);
    case LossOp::mean_squared_error:
      return mean_squared_error_double_backward(a, b, g, input, y, reduction);
    case LossOp::l1_loss:
      return l1_loss_double_backward(a, b, g, input, y, reduction);
    case LossOp::smooth_l1_loss:
      return smooth_l1_loss_double_backward(a, b, g, input, y, reduction, p);
    case LossOp::huber_loss:
      return huber_loss_double_backward(a, b, g, input, y, reduction, p);
    case LossOp::hinge_loss:
      return hinge_loss_double_backward(a, b, g, input, y, reduction, p);
    case LossOp::kl_divergence:
      return kl_divergence_double_backward(a, b, g, input, y, reduction, false);
    case LossOp::kl_divergence_of_logarithms:
      return kl_divergence_double_backward(a, b, g, input, y, reduction, true);
    case LossOp::focal_loss:
      return focal_loss_double_backward(a, b, g, input, y, reduction, p, q);
    case LossOp::count:
      break;
  }
  return {};
}

}  // namespace

}  // namespace extensor
