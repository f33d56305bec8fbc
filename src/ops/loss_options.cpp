// Losses whose arguments are given as a struct, and the weights of binary cross-entropy.
#include "core/check.h"
#include "extensor/broadcasting.h"
#include "extensor/elementwise.h"
#include "extensor/losses.h"
#include "ops/launch.h"
#include "ops/loss_support.h"

namespace extensor {

namespace {

using detail::message;
using ops::compute_dtype;

// The weight in the dtype of the values. ShapeError unless it broadcasts to their shape.
Tensor checked_weight(const char* operation, const char* argument, const Tensor& weight,
                      const Shape& shape, DType dtype) {
  if (!are_shapes_broadcastable(weight.shape(), shape) ||
      !(broadcast_shapes(weight.shape(), shape) == shape)) {
    throw ShapeError(message(operation, ": ", argument, " is ", weight.shape(),
                             ", does not broadcast to the input's shape ", shape));
  }
  return weight.to(dtype);
}

// The gradient of each value, given that of the reduced and weighted loss.
Tensor value_gradient(const char* operation, const Tensor& grad_output, const Tensor& x,
                      const Tensor& weight, Reduction reduction, DType dtype) {
  const Tensor g = ops::loss_gradient_input(operation, grad_output, x.shape(), reduction, dtype);
  Tensor each = (g * ops::loss_scale(x.numel(), reduction)).broadcast_to(x.shape());
  if (weight.defined()) {
    each = each * checked_weight(operation, "weight", weight, x.shape(), each.dtype());
  }
  return each;
}

// The values in their compute dtype, weighted, reduced, and rounded once.
Tensor weighted(const char* operation, const Tensor& values, const Tensor& weight,
                Reduction reduction, DType dtype) {
  Tensor result = values;
  if (weight.defined()) {
    result = result * checked_weight(operation, "weight", weight, values.shape(), values.dtype());
  }
  return ops::reduced_loss(result, reduction).to(dtype);
}

DType loss_dtype(const char* operation, const Tensor& x, const Tensor& y) {
  const DType dtype = is_floating_point(x.dtype()) ? x.dtype() : default_float;
  return is_floating_point(y.dtype()) ? promote_types(dtype, y.dtype(), operation) : dtype;
}

void check_same_shape(const char* operation, const Tensor& x, const Tensor& y) {
  if (x.shape() == y.shape()) return;
  throw ShapeError(
      message(operation, ": shapes differ: input is ", x.shape(), ", target is ", y.shape()));
}

}  // namespace

// ---- binary cross-entropy

Tensor binary_cross_entropy(const Tensor& p, const Tensor& y,
                            const BinaryCrossEntropyOptions& options) {
  constexpr const char* operation = "binary_cross_entropy";
  if (!options.weight.defined()) return binary_cross_entropy(p, y, options.reduction);
  const DType dtype = loss_dtype(operation, p, y), wide = compute_dtype(dtype);
  const Tensor values = binary_cross_entropy(p.to(wide), y, Reduction::none);
  return weighted(operation, values, options.weight, options.reduction, dtype);
}

std::pair<Tensor, Tensor> binary_cross_entropy_backward(const Tensor& grad_output, const Tensor& p,
                                                        const Tensor& y,
                                                        const BinaryCrossEntropyOptions& options,
                                                        StrictBool target_gradient) {
  constexpr const char* operation = "binary_cross_entropy_backward";
  const auto& [weight, reduction] = options;
  if (!weight.defined()) {
    return binary_cross_entropy_backward(grad_output, p, y, reduction, target_gradient);
  }
  check_same_shape(operation, p, y);
  const DType dtype = loss_dtype(operation, p, y);
  const Tensor g = value_gradient(operation, grad_output, p, weight, reduction, dtype);
  return binary_cross_entropy_backward(g, p, y, Reduction::none, target_gradient);
}

// With pos_weight the value is pos_weight y softplus(−x) + (1 − y) softplus(x): no terms cancel.
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& y,
                                        const BinaryCrossEntropyWithLogitsOptions& options) {
  constexpr const char* operation = "binary_cross_entropy_with_logits";
  const auto& [weight, pos_weight, reduction] = options;
  if (!weight.defined() && !pos_weight.defined()) {
    return binary_cross_entropy_with_logits(x, y, reduction);
  }
  check_same_shape(operation, x, y);
  const DType dtype = loss_dtype(operation, x, y), wide = compute_dtype(dtype);
  const Tensor wide_x = x.to(wide);
  if (!pos_weight.defined()) {
    const Tensor values = binary_cross_entropy_with_logits(wide_x, y, Reduction::none);
    return weighted(operation, values, weight, reduction, dtype);
  }
  const Tensor wide_y = y.to(wide);
  const Tensor factor =
      checked_weight(operation, "pos_weight", pos_weight, x.shape(), wide) * wide_y;
  const Tensor values = factor * softplus(-wide_x) + (1 - wide_y) * softplus(wide_x);
  return weighted(operation, values, weight, reduction, dtype);
}

std::pair<Tensor, Tensor> binary_cross_entropy_with_logits_backward(
    const Tensor& grad_output, const Tensor& x, const Tensor& y,
    const BinaryCrossEntropyWithLogitsOptions& options, StrictBool target_gradient) {
  constexpr const char* operation = "binary_cross_entropy_with_logits_backward";
  const auto& [weight, pos_weight, reduction] = options;
  if (!weight.defined() && !pos_weight.defined()) {
    return binary_cross_entropy_with_logits_backward(grad_output, x, y, reduction, target_gradient);
  }
  ops::check_float(operation, "input", x);
  check_same_shape(operation, x, y);
  const DType dtype = loss_dtype(operation, x, y), wide = compute_dtype(dtype);
  const Tensor g = value_gradient(operation, grad_output, x, weight, reduction, dtype);
  if (!pos_weight.defined()) {
    return binary_cross_entropy_with_logits_backward(g, x, y, Reduction::none, target_gradient);
  }
  const Tensor wide_x = x.to(wide), wide_y = y.to(wide);
  const Tensor positive = checked_weight(operation, "pos_weight", pos_weight, x.shape(), wide);
  std::pair<Tensor, Tensor> gradients;
  gradients.first =
      (g * ((1 - wide_y) * sigmoid(wide_x) - positive * wide_y * sigmoid(-wide_x))).to(x.dtype());
  if (ops::wants_gradient(y, target_gradient)) {
    gradients.second = (g * (positive * softplus(-wide_x) - softplus(wide_x))).to(y.dtype());
  }
  return gradients;
}

// ---- classes

Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     const CrossEntropyOptions& options) {
  return cross_entropy(logits, target, options.weight, options.reduction, options.ignore_index,
                       options.label_smoothing);
}

std::pair<Tensor, Tensor> cross_entropy_backward(const Tensor& grad_output, const Tensor& logits,
                                                 const Tensor& target,
                                                 const CrossEntropyOptions& options,
                                                 StrictBool target_gradient,
                                                 const Tensor& statistics) {
  return cross_entropy_backward(grad_output, logits, target, options.weight, options.reduction,
                                options.ignore_index, options.label_smoothing, target_gradient,
                                statistics);
}

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias,
                            const Tensor& target, const CrossEntropyOptions& options) {
  return linear_cross_entropy(x, weight, bias, target, options.weight, options.reduction,
                              options.ignore_index, options.label_smoothing);
}

LinearGradients linear_cross_entropy_backward(const Tensor& grad_output, const Tensor& x,
                                              const Tensor& weight, const Tensor& bias,
                                              const Tensor& target,
                                              const CrossEntropyOptions& options) {
  return linear_cross_entropy_backward(grad_output, x, weight, bias, target, options.weight,
                                       options.reduction, options.ignore_index,
                                       options.label_smoothing);
}

Tensor nll_loss(const Tensor& x, const Tensor& target, const NllOptions& options) {
  return nll_loss(x, target, options.weight, options.reduction, options.ignore_index);
}

Tensor nll_loss_backward(const Tensor& grad_output, const Tensor& x, const Tensor& target,
                         const NllOptions& options) {
  return nll_loss_backward(grad_output, x, target, options.weight, options.reduction,
                           options.ignore_index);
}

// ---- distances

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& options) {
  return triplet_margin_loss(anchor, positive, negative, options.margin, options.p, options.eps,
                             options.swap, options.reduction);
}

TripletGradients triplet_margin_loss_backward(const Tensor& grad_output, const Tensor& anchor,
                                              const Tensor& positive, const Tensor& negative,
                                              const TripletMarginOptions& options) {
  return triplet_margin_loss_backward(grad_output, anchor, positive, negative, options.margin,
                                      options.p, options.eps, options.swap, options.reduction);
}

}  // namespace extensor
