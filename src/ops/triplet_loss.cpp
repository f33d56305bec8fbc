// The triplet margin loss, of ops there are.
#include <cmath>

#include "core/check.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/losses.h"
#include "extensor/reduction.h"
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

 private:
  static void check(const char* operation, const char* name, double value, bool allowed,
                    const char* rule) {
    if (allowed) return;
    throw ValueError(message(operation, ": ", name, " is ", value, ", must be ", rule));
  }
};

}  // namespace

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin, double p, double eps, bool swap, Reduction reduction) {
  const Triplet t("triplet_margin_loss", anchor, positive, negative, margin, p, eps);
  const Tensor near = Distance(t.anchor, t.positive, p, eps).value;
  Tensor far = Distance(t.anchor, t.negative, p, eps).value;
  if (swap) far = minimum(far, Distance(t.positive, t.negative, p, eps).value);
  const Tensor values = relu(near - far + margin).reshape(t.shape);
  return ops::reduced_loss(values, reduction).to(t.dtype);
}

TripletGradients triplet_margin_loss_backward(const Tensor& grad_output, const Tensor& anchor,
                                              const Tensor& positive, const Tensor& negative,
                                              double margin, double p, double eps, bool swap,
                                              Reduction reduction) {
  const char* operation = "triplet_margin_loss_backward";
  const Triplet t(operation, anchor, positive, negative, margin, p, eps);
  Tensor g = ops::loss_gradient_input(operation, grad_output, t.shape, reduction, t.dtype);
  if (reduction == Reduction::none) g = g.unsqueeze(-1);
  std::int64_t count = 1;
  for (std::int64_t size : t.shape) count *= size;
  if (count != 0) g = multiply(g, ops::loss_scale(count, reduction));

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

}  // namespace extensor
