// Loss functions and their explicit gradients.
//
//   Tensor loss = extensor::cross_entropy(logits, labels);
//   auto [grad_logits, none] = extensor::cross_entropy_backward(grad_loss, logits, labels);
//   Tensor each = extensor::mean_squared_error(x, y, Reduction::none);
//
// Every loss takes a `reduction`: the mean of its values (the default), their sum (both 0-d), or
// the values themselves. A loss with more arguments also takes them as a struct, the same that its
// layer takes: cross_entropy(x, y, {.label_smoothing = 0.1}). Halves are computed in float32; sums
// do not depend on the number of threads. Input and target have the same shape and do not
// broadcast: [n] against [n, 1] is a ShapeError. A target of integers or bool is read as numbers.
// The mean of no elements is NaN.
//
// A backward takes the gradient of the forward's result, then the forward's arguments, and returns
// the gradients of input and target, each in its own dtype. The gradient of the target is undefined
// if the target is not a float, or if `target_gradient` is false, which saves its cost.
#pragma once

#include <utility>

#include "extensor/export.h"
#include "extensor/linear.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

enum class Reduction : std::uint8_t { mean, sum, none };

// ---- element by element

// −(y log p + (1 − y) log(1 − p)) with p clamped to [1e-7, 1 − 1e-7]. The gradient of p is (p − y)
// / (p (1 − p)) at the clamped p, so it is also finite at 0 and 1. ValueError, naming the value,
// for a p or y below 0 or above 1; NaN yields NaN.
Tensor binary_cross_entropy(const Tensor& p, const Tensor& y,
                            Reduction reduction = Reduction::mean);
std::pair<Tensor, Tensor> binary_cross_entropy_backward(const Tensor& grad_output, const Tensor& p,
                                                        const Tensor& y,
                                                        Reduction reduction = Reduction::mean,
                                                        StrictBool target_gradient = true);
struct BinaryCrossEntropyOptions {
  Tensor weight = {};  // broadcasts to p: a factor of each value; the mean still divides by their
                       // number
  Reduction reduction = Reduction::mean;
};
Tensor binary_cross_entropy(const Tensor& p, const Tensor& y,
                            const BinaryCrossEntropyOptions& options);
std::pair<Tensor, Tensor> binary_cross_entropy_backward(const Tensor& grad_output, const Tensor& p,
                                                        const Tensor& y,
                                                        const BinaryCrossEntropyOptions& options,
                                                        StrictBool target_gradient = true);

// The same for p = sigmoid(x), without overflow and accurate in both tails.
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& y,
                                        Reduction reduction = Reduction::mean);
std::pair<Tensor, Tensor> binary_cross_entropy_with_logits_backward(
    const Tensor& grad_output, const Tensor& x, const Tensor& y,
    Reduction reduction = Reduction::mean, StrictBool target_gradient = true);
struct BinaryCrossEntropyWithLogitsOptions {
  Tensor weight = {};      // broadcasts to x: a factor of each value
  Tensor pos_weight = {};  // broadcasts to x: a factor of the part of y, for rare positives
  Reduction reduction = Reduction::mean;
};
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& y,
                                        const BinaryCrossEntropyWithLogitsOptions& options);
std::pair<Tensor, Tensor> binary_cross_entropy_with_logits_backward(
    const Tensor& grad_output, const Tensor& x, const Tensor& y,
    const BinaryCrossEntropyWithLogitsOptions& options, StrictBool target_gradient = true);

// (x − y)²
Tensor mean_squared_error(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean);
std::pair<Tensor, Tensor> mean_squared_error_backward(const Tensor& grad_output, const Tensor& x,
                                                      const Tensor& y,
                                                      Reduction reduction = Reduction::mean,
                                                      StrictBool target_gradient = true);

// |x − y|; gradient 0 where they are equal.
Tensor l1_loss(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean);
std::pair<Tensor, Tensor> l1_loss_backward(const Tensor& grad_output, const Tensor& x,
                                           const Tensor& y, Reduction reduction = Reduction::mean,
                                           StrictBool target_gradient = true);

// With d = |x − y|: d² / (2 beta) below beta, else d − beta / 2. beta ≥ 0; 0 equals l1_loss.
Tensor smooth_l1_loss(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean,
                      StrictDouble beta = 1);
std::pair<Tensor, Tensor> smooth_l1_loss_backward(const Tensor& grad_output, const Tensor& x,
                                                  const Tensor& y,
                                                  Reduction reduction = Reduction::mean,
                                                  StrictDouble beta = 1,
                                                  StrictBool target_gradient = true);
struct SmoothL1Options {
  Reduction reduction = Reduction::mean;
  double beta = 1;
};
inline Tensor smooth_l1_loss(const Tensor& x, const Tensor& y, const SmoothL1Options& options) {
  return smooth_l1_loss(x, y, options.reduction, options.beta);
}
inline std::pair<Tensor, Tensor> smooth_l1_loss_backward(const Tensor& grad_output, const Tensor& x,
                                                         const Tensor& y,
                                                         const SmoothL1Options& options,
                                                         StrictBool target_gradient = true) {
  return smooth_l1_loss_backward(grad_output, x, y, options.reduction, options.beta,
                                 target_gradient);
}

// With d = |x − y|: d² / 2 below delta, else delta (d − delta / 2). delta > 0.
Tensor huber_loss(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean,
                  StrictDouble delta = 1);
std::pair<Tensor, Tensor> huber_loss_backward(const Tensor& grad_output, const Tensor& x,
                                              const Tensor& y,
                                              Reduction reduction = Reduction::mean,
                                              StrictDouble delta = 1,
                                              StrictBool target_gradient = true);
struct HuberOptions {
  Reduction reduction = Reduction::mean;
  double delta = 1;
};
inline Tensor huber_loss(const Tensor& x, const Tensor& y, const HuberOptions& options) {
  return huber_loss(x, y, options.reduction, options.delta);
}
inline std::pair<Tensor, Tensor> huber_loss_backward(const Tensor& grad_output, const Tensor& x,
                                                     const Tensor& y, const HuberOptions& options,
                                                     StrictBool target_gradient = true) {
  return huber_loss_backward(grad_output, x, y, options.reduction, options.delta, target_gradient);
}

// max(0, margin − x y) for a score x and a target y of −1 or 1; gradient 0 at the hinge.
Tensor hinge_loss(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean,
                  StrictDouble margin = 1);
std::pair<Tensor, Tensor> hinge_loss_backward(const Tensor& grad_output, const Tensor& x,
                                              const Tensor& y,
                                              Reduction reduction = Reduction::mean,
                                              StrictDouble margin = 1,
                                              StrictBool target_gradient = true);
struct HingeOptions {
  Reduction reduction = Reduction::mean;
  double margin = 1;
};
inline Tensor hinge_loss(const Tensor& x, const Tensor& y, const HingeOptions& options) {
  return hinge_loss(x, y, options.reduction, options.margin);
}
inline std::pair<Tensor, Tensor> hinge_loss_backward(const Tensor& grad_output, const Tensor& x,
                                                     const Tensor& y, const HingeOptions& options,
                                                     StrictBool target_gradient = true) {
  return hinge_loss_backward(grad_output, x, y, options.reduction, options.margin, target_gradient);
}

// y (log y − x) for log-probabilities x and probabilities y, 0 where y is 0 (and so is the gradient
// of y there); with `log_target` y holds log-probabilities: exp(y) (y − x). The mean is over all
// elements, as PyTorch's "mean"; for the mean over a batch of n, divide the sum by n.
Tensor kl_divergence(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean,
                     StrictBool log_target = false);
std::pair<Tensor, Tensor> kl_divergence_backward(const Tensor& grad_output, const Tensor& x,
                                                 const Tensor& y,
                                                 Reduction reduction = Reduction::mean,
                                                 StrictBool log_target = false,
                                                 StrictBool target_gradient = true);
struct KlDivergenceOptions {
  Reduction reduction = Reduction::mean;
  bool log_target = false;
};
inline Tensor kl_divergence(const Tensor& x, const Tensor& y, const KlDivergenceOptions& options) {
  return kl_divergence(x, y, options.reduction, options.log_target);
}
inline std::pair<Tensor, Tensor> kl_divergence_backward(const Tensor& grad_output, const Tensor& x,
                                                        const Tensor& y,
                                                        const KlDivergenceOptions& options,
                                                        StrictBool target_gradient = true) {
  return kl_divergence_backward(grad_output, x, y, options.reduction, options.log_target,
                                target_gradient);
}

// alpha_t (1 − p_t)^gamma times the binary cross-entropy of logits x. p_t is the probability of the
// target; alpha_t is alpha where y is 1 and 1 − alpha where y is 0; a negative alpha disables that
// factor. gamma ≥ 0, alpha ≤ 1. Targets between 0 and 1 mix both sides.
Tensor focal_loss(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean,
                  StrictDouble alpha = 0.25, StrictDouble gamma = 2);
std::pair<Tensor, Tensor> focal_loss_backward(const Tensor& grad_output, const Tensor& x,
                                              const Tensor& y,
                                              Reduction reduction = Reduction::mean,
                                              StrictDouble alpha = 0.25, StrictDouble gamma = 2,
                                              StrictBool target_gradient = true);
struct FocalOptions {
  Reduction reduction = Reduction::mean;
  double alpha = 0.25;
  double gamma = 2;
};
inline Tensor focal_loss(const Tensor& x, const Tensor& y, const FocalOptions& options) {
  return focal_loss(x, y, options.reduction, options.alpha, options.gamma);
}
inline std::pair<Tensor, Tensor> focal_loss_backward(const Tensor& grad_output, const Tensor& x,
                                                     const Tensor& y, const FocalOptions& options,
                                                     StrictBool target_gradient = true) {
  return focal_loss_backward(grad_output, x, y, options.reduction, options.alpha, options.gamma,
                             target_gradient);
}

// ---- classes

inline constexpr std::int64_t default_ignore_index = -100;

// −Σ target · log_softmax(logits) over the classes, which are axis 1 of logits [n, classes, …], or
// all of [classes]. The target is either class indices (integers of the logits' shape without that
// axis) or probabilities (floats of the logits' shape).
//
//   weight           [classes] or undefined: each class's part is multiplied by its weight
//   ignore_index     rows of this index count for nothing; the mean is over the kept rows, weighted
//                    by their targets' weights, and 0 where none is kept. Of probabilities, the
//                    mean is over all rows and this is not used
//   label_smoothing  in [0, 1]: this part of every target is spread evenly over all classes
//
// IndexError for a class index outside 0 … classes − 1 that is not ignore_index. Gradients: of the
// logits, and of a target of probabilities; the weight is a constant.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const Tensor& weight = {},
                     Reduction reduction = Reduction::mean,
                     StrictInt ignore_index = default_ignore_index,
                     StrictDouble label_smoothing = 0);
std::pair<Tensor, Tensor> cross_entropy_backward(const Tensor& grad_output, const Tensor& logits,
                                                 const Tensor& target, const Tensor& weight = {},
                                                 Reduction reduction = Reduction::mean,
                                                 StrictInt ignore_index = default_ignore_index,
                                                 StrictDouble label_smoothing = 0,
                                                 StrictBool target_gradient = true,
                                                 const Tensor& statistics = {});
struct CrossEntropyOptions {
  Tensor weight = {};  // one weight per class
  Reduction reduction = Reduction::mean;
  std::int64_t ignore_index = default_ignore_index;
  double label_smoothing = 0;
};
Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     const CrossEntropyOptions& options);
std::pair<Tensor, Tensor> cross_entropy_backward(const Tensor& grad_output, const Tensor& logits,
                                                 const Tensor& target,
                                                 const CrossEntropyOptions& options,
                                                 StrictBool target_gradient = true,
                                                 const Tensor& statistics = {});
// The loss, and statistics of the rows for the backward with the same arguments: with them, it
// computes the same bits and reads the logits once instead of twice.
std::pair<Tensor, Tensor> cross_entropy_with_statistics(
    const Tensor& logits, const Tensor& target, const Tensor& weight = {},
    Reduction reduction = Reduction::mean, StrictInt ignore_index = default_ignore_index,
    StrictDouble label_smoothing = 0);

// cross_entropy(linear(x, weight, bias), target) with its options, but without storing all logits:
// they exist a block of rows and classes at a time. x [..., in], weight [classes, in], bias
// [classes] or undefined; the target is class indices of x's shape without its last axis, and
// class_weight is cross_entropy's weight. Halves are computed in float32. Under Autocast x, weight
// and bias are rounded to the half dtype and the loss is float32.
//
// A recorded call whose loss is a mean or a sum computes the gradients at once, and the backward
// scales them; use NoGrad for a call that needs no gradient. DTypeError for a target of
// probabilities. Gradients: of x, weight and bias. Gradients of gradients store all logits.
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias,
                            const Tensor& target, const Tensor& class_weight = {},
                            Reduction reduction = Reduction::mean,
                            StrictInt ignore_index = default_ignore_index,
                            StrictDouble label_smoothing = 0);
LinearGradients linear_cross_entropy_backward(const Tensor& grad_output, const Tensor& x,
                                              const Tensor& weight, const Tensor& bias,
                                              const Tensor& target, const Tensor& class_weight = {},
                                              Reduction reduction = Reduction::mean,
                                              StrictInt ignore_index = default_ignore_index,
                                              StrictDouble label_smoothing = 0);

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias,
                            const Tensor& target, const CrossEntropyOptions& options);
LinearGradients linear_cross_entropy_backward(const Tensor& grad_output, const Tensor& x,
                                              const Tensor& weight, const Tensor& bias,
                                              const Tensor& target,
                                              const CrossEntropyOptions& options);

// −weight · x at the target's class, for log-probabilities x; shapes and rules are those of
// cross_entropy with class indices.
Tensor nll_loss(const Tensor& x, const Tensor& target, const Tensor& weight = {},
                Reduction reduction = Reduction::mean,
                StrictInt ignore_index = default_ignore_index);
Tensor nll_loss_backward(const Tensor& grad_output, const Tensor& x, const Tensor& target,
                         const Tensor& weight = {}, Reduction reduction = Reduction::mean,
                         StrictInt ignore_index = default_ignore_index);

struct NllOptions {
  Tensor weight = {};
  Reduction reduction = Reduction::mean;
  std::int64_t ignore_index = default_ignore_index;
};
Tensor nll_loss(const Tensor& x, const Tensor& target, const NllOptions& options);
Tensor nll_loss_backward(const Tensor& grad_output, const Tensor& x, const Tensor& target,
                         const NllOptions& options);

// ---- distances

// max(0, margin + d(anchor, positive) − d(anchor, negative)) with d(a, b) = (Σ |a − b + eps|^p)^1/p
// over the last axis; `swap` uses the smaller of d(anchor, negative) and d(positive, negative). All
// three are floats of one shape; margin > 0, p > 0 and finite, eps ≥ 0. The gradient is 0 at the
// hinge and at distance 0.
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           StrictDouble margin = 1, StrictDouble p = 2, StrictDouble eps = 1e-6,
                           StrictBool swap = false, Reduction reduction = Reduction::mean);
struct TripletGradients {
  Tensor anchor, positive, negative;
};
TripletGradients triplet_margin_loss_backward(const Tensor& grad_output, const Tensor& anchor,
                                              const Tensor& positive, const Tensor& negative,
                                              StrictDouble margin = 1, StrictDouble p = 2,
                                              StrictDouble eps = 1e-6, StrictBool swap = false,
                                              Reduction reduction = Reduction::mean);

struct TripletMarginOptions {
  double margin = 1;
  double p = 2;
  double eps = 1e-6;
  bool swap = false;
  Reduction reduction = Reduction::mean;
};
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& options);
TripletGradients triplet_margin_loss_backward(const Tensor& grad_output, const Tensor& anchor,
                                              const Tensor& positive, const Tensor& negative,
                                              const TripletMarginOptions& options);

struct CosineEmbeddingOptions {
  double margin = 0;
  Reduction reduction = Reduction::mean;
};
// With the cosine c of a and b along the last axis: 1 − c where y is 1, max(0, c − margin) where y
// is −1, and 0 elsewhere. a and b are floats [..., width] of one shape, y has their shape without
// the last axis. Squared lengths are at least 1e-12, as in PyTorch. Gradients: of a and b.
Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& y,
                             const CosineEmbeddingOptions& options = {});
std::pair<Tensor, Tensor> cosine_embedding_loss_backward(
    const Tensor& grad_output, const Tensor& a, const Tensor& b, const Tensor& y,
    const CosineEmbeddingOptions& options = {});

// ---- distributions

struct GaussianNllOptions {
  bool full = false;  // include the constant log(2π) / 2
  double eps = 1e-6;  // variances below are replaced by it; above 0
  Reduction reduction = Reduction::mean;
};
// (log v + (x − y)² / v) / 2 for a mean x, a target y of its shape and a variance v that broadcasts
// to it. The gradient of v is that of the replaced value. ValueError for a negative variance on the
// CPU; on other devices its loss is NaN.
Tensor gaussian_nll_loss(const Tensor& x, const Tensor& y, const Tensor& variance,
                         const GaussianNllOptions& options = {});
struct GaussianNllGradients {
  Tensor x, y, variance;
};
GaussianNllGradients gaussian_nll_loss_backward(const Tensor& grad_output, const Tensor& x,
                                                const Tensor& y, const Tensor& variance,
                                                const GaussianNllOptions& options = {});

// ---- names of the original specification

inline Tensor mse(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean) {
  return mean_squared_error(x, y, reduction);
}
inline std::pair<Tensor, Tensor> mse_backward(const Tensor& grad_output, const Tensor& x,
                                              const Tensor& y,
                                              Reduction reduction = Reduction::mean) {
  return mean_squared_error_backward(grad_output, x, y, reduction);
}

}  // namespace extensor

EXTENSOR_END_API
