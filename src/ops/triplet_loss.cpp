// The triplet margin loss, composed of other ops.
#include <cmath>

#include "core/check.h"
#include "core/graph.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/losses.h"
#include "extensor/reduction.h"
#include "ops/launch.h"
#include "ops/loss_support.h"
#include "ops/registry.h"

namespace extensor {

namespace {

using detail::message;
using namespace ops;

// (Σ |a − b + eps|^p)^1/p over the last axis, which is kept, and its gradient.
struct Distance {
  Tensor difference, value;  // the value has no history
  double p;

  Distance(const Tensor& a, const Tensor& b, double power_, double eps)
      : difference(a - b + eps), p(power_) {
    value = detail::unrecorded([&] {
      if (p == 2) return sqrt(sum(square(difference), -1, true));
      if (p == 1) return sum(abs(difference), -1, true);
      return power(sum(power(abs(difference), p), -1, true), 1 / p);
    });
  }

  // The gradient of a; that of b is its negative. It is 0 at distance 0, and for elements that are
  // 0.
  Tensor gradient(const Tensor& g) const { return norm_backward(g, difference, p, -1); }
};

struct Triplet {
  Tensor anchor, positive, negative;  // in the compute dtype
  DType dtype;
  Shape shape;  // shape of the unreduced values

  Triplet(const char* operation, const Tensor& a, const Tensor& p, const Tensor& n, double margin,
          double power, double eps) {
    const Source all[] = {a, p, n};
    common_device(operation, all);
    check_float(operation, "anchor", a);
    check_float(operation, "positive", p);
    check_float(operation, "negative", n);
    if (!(a.shape() == p.shape()) || !(a.shape() == n.shape())) {
      throw ShapeError(message(operation, ": shapes differ: anchor is ", a.shape(),
                               ", positive is ", p.shape(), ", negative is ", n.shape()));
    }
    if (a.ndim() == 0) {
      throw ShapeError(message(operation, ": anchor is [], needs an axis to measure along"));
    }
    check_parameter(operation, "margin", margin, margin > 0 && std::isfinite(margin),
                    "finite and above 0");
    check_parameter(operation, "p", power, power > 0 && std::isfinite(power), "finite and above 0");
    check_parameter(operation, "eps", eps, eps >= 0 && std::isfinite(eps), "finite and 0 or more");
    dtype = promote_types(promote_types(a.dtype(), p.dtype(), operation), n.dtype(), operation);
    const DType wide = compute_dtype(dtype);
    anchor = a.to(wide);
    positive = p.to(wide);
    negative = n.to(wide);
    for (std::size_t d = 0; d + 1 < a.shape().size(); ++d) shape.push_back(a.shape()[d]);
  }

  // Checks grad_output, scales it for the reduction, and keeps the last axis.
  Tensor gradient(const char* operation, const Tensor& grad_output, Reduction reduction) const {
    Tensor g = loss_gradient_input(operation, grad_output, shape, reduction, dtype);
    if (reduction == Reduction::none) g = g.unsqueeze(-1);
    std::int64_t count = 1;
    for (std::int64_t size : shape) count *= size;
    return count == 0 ? g : multiply(g, loss_scale(count, reduction));
  }
};

struct TripletAttributes {
  double margin, p, eps;
  bool swap;
  Reduction reduction;
};

Tensor triplet_forward(const Run& run, const TripletAttributes& attributes, const Tensor& anchor,
                       const Tensor& positive, const Tensor& negative) {
  const auto& [margin, p, eps, swap, reduction] = attributes;
  const Triplet t(run.name(), anchor, positive, negative, margin, p, eps);
  const Tensor near = Distance(t.anchor, t.positive, p, eps).value;
  Tensor far = Distance(t.anchor, t.negative, p, eps).value;
  if (swap) far = minimum(far, Distance(t.positive, t.negative, p, eps).value);
  const Tensor values = relu(near - far + margin).reshape(t.shape);
  return reduced_loss(values, reduction).to(t.dtype);
}

Gradients triplet_gradient(const GradientCall& call, const TripletAttributes& attributes) {
  const auto& [margin, p, eps, swap, reduction] = attributes;
  const TripletGradients gradients = triplet_margin_loss_backward(
      call.grad(), call.input(0), call.input(1), call.input(2), margin, p, eps, swap, reduction);
  return {gradients.anchor, gradients.positive, gradients.negative};
}

constexpr Reads all_three = input(0) | input(1) | input(2);
constexpr auto triplet_margin_loss_op =
    define<triplet_forward, triplet_gradient>({.name = "triplet_margin_loss",
                                               .inputs = {"anchor", "positive", "negative"},
                                               .reads = {all_three, all_three, all_three},
                                               .cast = Cast::up});

}  // namespace

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           StrictDouble margin, StrictDouble p, StrictDouble eps, StrictBool swap,
                           Reduction reduction) {
  return dispatch(triplet_margin_loss_op, {margin, p, eps, swap, reduction}, anchor, positive,
                  negative);
}

TripletGradients triplet_margin_loss_backward(const Tensor& grad_output, const Tensor& anchor,
                                              const Tensor& positive, const Tensor& negative,
                                              StrictDouble margin, StrictDouble p, StrictDouble eps,
                                              StrictBool swap, Reduction reduction) {
  const char* operation = "triplet_margin_loss_backward";
  const Triplet t(operation, anchor, positive, negative, margin, p, eps);
  const Tensor g = t.gradient(operation, grad_output, reduction);

  const Distance near(t.anchor, t.positive, p, eps), far(t.anchor, t.negative, p, eps);
  // g where the loss is positive, otherwise 0.
  const auto active = [&](const Tensor& smaller) {
    const Tensor above = greater(near.value - smaller + margin, 0);
    return where(above, g, zeros({}, {g.dtype(), cpu_device})).broadcast_to(smaller.shape());
  };
  if (!swap) {
    const Tensor part = active(far.value);
    const Tensor of_near = near.gradient(part), of_far = far.gradient(part);
    return {(of_near - of_far).to(anchor.dtype()), extensor::negative(of_near).to(positive.dtype()),
            of_far.to(negative.dtype())};
  }
  const Distance other(t.positive, t.negative, p, eps);
  const Tensor part = active(minimum(far.value, other.value));
  const auto [far_part, other_part] = minimum_backward(part, far.value, other.value);
  const Tensor of_near = near.gradient(part), of_far = far.gradient(far_part),
               of_other = other.gradient(other_part);
  return {(of_near - of_far).to(anchor.dtype()),
          extensor::negative(of_near + of_other).to(positive.dtype()),
          (of_far + of_other).to(negative.dtype())};
}

constinit const OpList ops::triplet_loss_ops = listed<triplet_margin_loss_op>;

}  // namespace extensor
