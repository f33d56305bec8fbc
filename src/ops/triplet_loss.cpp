// The triplet margin loss, of ops there are.
#include <cmath>

#include "core/check.h"
#include "core/graph.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/losses.h"
#include "extensor/reduction.h"
#include "ops/autocast.h"
#include "ops/launch.h"
#include "ops/loss_support.h"

namespace extensor {

using detail::message;

namespace {

// (Σ |a − b + eps|^p)^1/p over the last axis, which is kept, and its gradient.
struct Distance {
  Tensor difference, value;
  double p;

  Distance(const Tensor& a, const Tensor& b, double power_, double eps)
      : difference(a - b + eps), p(power_) {
    if (p == 2) {
      value = sqrt(sum(square(difference), -1, true));
    } else if (p == 1) {
      value = sum(abs(difference), -1, true);
    } else {
      value = power(sum(power(abs(difference), p), -1, true), 1 / p);
    }
  }

  // By a; by b it is the negative. 0 at distance 0, and for elements that are 0.
  Tensor gradient() const {
    if (p == 1) return sign(difference);
    const Tensor zero = zeros({}, value.dtype()), is_zero = equal(difference, 0);
    const Tensor ratio = abs(difference) / where(equal(value, 0), ones({}, value.dtype()), value);
    const Tensor magnitude = p == 2 ? ratio : power(where(is_zero, ones_like(ratio), ratio), p - 1);
    return where(is_zero, zero, multiply(sign(difference), magnitude));
  }
};

struct Triplet {
  Tensor anchor, positive, negative;  // in the dtype that computes
  DType dtype;
  Shape shape;  // of the values

  Triplet(const char* operation, const Tensor& a, const Tensor& p, const Tensor& n, double margin,
          double power, double eps) {
    const ops::Source all[] = {a, p, n};
    ops::common_device(operation, all);
    ops::check_float(operation, "anchor", a);
    ops::check_float(operation, "positive", p);
    ops::check_float(operation, "negative", n);
    if (!(a.shape() == p.shape()) || !(a.shape() == n.shape())) {
      throw ShapeError(message(operation, ": shapes differ: anchor is ", a.shape(),
                               ", positive is ", p.shape(), ", negative is ", n.shape()));
    }
    if (a.ndim() == 0) {
      throw ShapeError(message(operation, ": anchor is [], needs an axis to measure along"));
    }
    check(operation, "margin", margin, margin > 0 && std::isfinite(margin), "finite and above 0");
    check(operation, "p", power, power > 0 && std::isfinite(power), "finite and above 0");
    check(operation, "eps", eps, eps >= 0 && std::isfinite(eps), "finite and 0 or more");
    dtype = promote_types(promote_types(a.dtype(), p.dtype(), operation), n.dtype(), operation);
    const DType wide = ops::compute_dtype(dtype);
    anchor = a.to(wide);
    positive = p.to(wide);
    negative = n.to(wide);
    for (std::size_t d = 0; d + 1 < a.shape().size(); ++d) shape.push_back(a.shape()[d]);
  }

  // grad_output, checked, scaled as the reduction does, with the last axis kept.
  Tensor gradient(const char* operation, const Tensor& grad_output, Reduction reduction) const {
    Tensor g = ops::loss_gradient_input(operation, grad_output, shape, reduction, dtype);
    if (reduction == Reduction::none) g = g.unsqueeze(-1);
    std::int64_t count = 1;
    for (std::int64_t size : shape) count *= size;
    return count == 0 ? g : multiply(g, ops::loss_scale(count, reduction));
  }

 private:
  static void check(const char* operation, const char* name, double value, bool allowed,
                    const char* rule) {
    if (allowed) return;
    throw ValueError(message(operation, ": ", name, " is ", value, ", must be ", rule));
  }
};

std::vector<Tensor> as_list(const TripletGradients& gradients) {
  return {gradients.anchor, gradients.positive, gradients.negative};
}

}  // namespace

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           StrictDouble margin, StrictDouble p, StrictDouble eps, StrictBool swap,
                           Reduction reduction) {
  if (ops::raises(anchor) || ops::raises(positive) || ops::raises(negative)) {
    return triplet_margin_loss(ops::raised(anchor), ops::raised(positive), ops::raised(negative),
                               margin, p, eps, swap, reduction);
  }
  // One step with the explicit gradient, which says what the ends of the distances give.
  if (detail::records(anchor, positive, negative)) {
    return detail::recorded(
        "triplet_margin_loss",
        [&] {
          return triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction);
        },
        [=](const Tensor& g, const Tensor& a, const Tensor& b, const Tensor& c) {
          return as_list(triplet_margin_loss_backward(g, a, b, c, margin, p, eps, swap, reduction));
        },
        anchor, positive, negative);
  }
  const Triplet t("triplet_margin_loss", anchor, positive, negative, margin, p, eps);
  const Tensor near = Distance(t.anchor, t.positive, p, eps).value;
  Tensor far = Distance(t.anchor, t.negative, p, eps).value;
  if (swap) far = minimum(far, Distance(t.positive, t.negative, p, eps).value);
  const Tensor values = relu(near - far + margin).reshape(t.shape);
  return ops::reduced_loss(values, reduction).to(t.dtype);
}

TripletGradients triplet_margin_loss_backward(const Tensor& grad_output, const Tensor& anchor,
                                              const Tensor& positive, const Tensor& negative,
                                              StrictDouble margin, StrictDouble p, StrictDouble eps,
                                              StrictBool swap, Reduction reduction) {
  if (detail::records(grad_output, anchor, positive, negative)) {
    const std::vector<Tensor> gradients = detail::recorded_all(
        "triplet_margin_loss_backward",
        [&] {
          return as_list(triplet_margin_loss_backward(grad_output, anchor, positive, negative,
                                                      margin, p, eps, swap, reduction));
        },
        [=](const detail::Gradients& v, const detail::Node&, const Tensor& g, const Tensor& a,
            const Tensor& b, const Tensor& c) -> detail::Gradients {
          const TripletSecondGradients second = triplet_margin_loss_double_backward(
              {v[0], v[1], v[2]}, g, a, b, c, margin, p, eps, swap, reduction);
          return {second.grad_output, second.anchor, second.positive, second.negative};
        },
        grad_output, anchor, positive, negative);
    return {gradients[0], gradients[1], gradients[2]};
  }
  const char* operation = "triplet_margin_loss_backward";
  const Triplet t(operation, anchor, positive, negative, margin, p, eps);
  const Tensor g = t.gradient(operation, grad_output, reduction);

  const Distance near(t.anchor, t.positive, p, eps), far(t.anchor, t.negative, p, eps);
  const Tensor zero = zeros({}, g.dtype());
  if (!swap) {
    const Tensor active = where(greater(near.value - far.value + margin, 0), g, zero);
    const Tensor of_near = active * near.gradient(), of_far = active * far.gradient();
    return {(of_near - of_far).to(anchor.dtype()), extensor::negative(of_near).to(positive.dtype()),
            of_far.to(negative.dtype())};
  }
  const Distance other(t.positive, t.negative, p, eps);
  const Tensor smaller = minimum(far.value, other.value);
  const Tensor active =
      where(greater(near.value - smaller + margin, 0), g, zero).broadcast_to(smaller.shape());
  const auto [far_part, other_part] = minimum_backward(active, far.value, other.value);
  const Tensor of_near = active * near.gradient(), of_far = far_part * far.gradient(),
               of_other = other_part * other.gradient();
  return {(of_near - of_far).to(anchor.dtype()),
          extensor::negative(of_near + of_other).to(positive.dtype()),
          (of_far + of_other).to(negative.dtype())};
}

// Each distance is a norm of a difference d, weighed with a part of grad_output: its gradient by d
// reaches two of the three tensors, with opposite signs.
TripletSecondGradients triplet_margin_loss_double_backward(
    const TripletGradients& grad_gradients, const Tensor& grad_output, const Tensor& anchor,
    const Tensor& positive, const Tensor& negative, StrictDouble margin, StrictDouble p,
    StrictDouble eps, StrictBool swap, Reduction reduction) {
  const char* operation = "triplet_margin_loss_double_backward";
  const Triplet t(operation, anchor, positive, negative, margin, p, eps);
  const auto given = [&](const char* argument, const Tensor& gradient) {
    if (!gradient.defined()) return zeros_like(t.anchor);
    ops::check_gradient(operation, argument, gradient, anchor.shape());
    return gradient.to(t.anchor.dtype());
  };
  const Tensor of_anchor = given("the gradient of anchor's", grad_gradients.anchor),
               of_positive = given("the gradient of positive's", grad_gradients.positive),
               of_negative = given("the gradient of negative's", grad_gradients.negative);

  const Distance near(t.anchor, t.positive, p, eps), far(t.anchor, t.negative, p, eps),
      other(t.positive, t.negative, p, eps);
  const Tensor one = ones_like(near.value), zero = zeros_like(near.value);
  // Which part of −grad_output each of the distances to `negative` gets.
  const auto [of_far, of_other] =
      swap ? minimum_backward(one, far.value, other.value) : std::pair(one, zero);
  const Tensor smaller = swap ? minimum(far.value, other.value) : far.value;
  const Tensor active = greater(near.value - smaller + margin, 0).to(one.dtype());
  const Tensor g = t.gradient(operation, grad_output, reduction) * active;

  const auto [near_g, near_d] =
      norm_double_backward(of_anchor - of_positive, g, near.difference, p, -1);
  const auto [far_g, far_d] =
      norm_double_backward(of_negative - of_anchor, g * of_far, far.difference, p, -1);
  const auto [other_g, other_d] =
      norm_double_backward(of_negative - of_positive, g * of_other, other.difference, p, -1);
  const Tensor of_values = active * (near_g + of_far * far_g + of_other * other_g);
  return {ops::reduced_loss(of_values.reshape(t.shape), reduction).to(grad_output.dtype()),
          (near_d + far_d).to(anchor.dtype()), (other_d - near_d).to(positive.dtype()),
          extensor::negative(far_d + other_d).to(negative.dtype())};
}

}  // namespace extensor
