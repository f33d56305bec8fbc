// Losses that are composed of other ops: cosine embedding and Gaussian negative log-likelihood.
#include <cmath>
#include <limits>
#include <numbers>

#include "core/check.h"
#include "extensor/broadcasting.h"
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

// The gradient of each unreduced value.
Tensor value_gradient(const char* operation, const Tensor& grad_output, const Shape& shape,
                      Reduction reduction, DType dtype) {
  const Tensor g = loss_gradient_input(operation, grad_output, shape, reduction, dtype);
  std::int64_t count = 1;
  for (std::int64_t size : shape) count *= size;
  return count == 0 ? g.broadcast_to(shape) : multiply(g, loss_scale(count, reduction));
}

Tensor zero_like(const Tensor& x) { return zeros({}, {x.dtype(), cpu_device}); }

// ---- cosine embedding

constexpr double least_square = 1e-12;

struct Cosine {
  DType dtype;
  Shape shape;                                // of the unreduced values
  Tensor a, b;                                // in the compute dtype
  Tensor square_a, square_b, lengths, value;  // [..., 1]
  Tensor attracts, repels;                    // [..., 1], bool

  Cosine(const char* operation, const Tensor& given_a, const Tensor& given_b, const Tensor& y,
         const CosineEmbeddingOptions& options) {
    check_float(operation, "a", given_a);
    check_float(operation, "b", given_b);
    const Source all[] = {given_a, given_b, y};
    common_device(operation, all);
    if (!(given_a.shape() == given_b.shape()) || given_a.ndim() == 0) {
      throw ShapeError(message(operation, ": a is ", given_a.shape(), ", b is ", given_b.shape(),
                               ", must both be [..., width]"));
    }
    shape = given_a.shape();
    shape.erase(shape.size() - 1);
    if (!(y.shape() == shape)) {
      throw ShapeError(message(operation, ": y is ", y.shape(), ", must be ", shape, " for a ",
                               given_a.shape()));
    }
    detail::check_option(operation, "reduction", options.reduction, Reduction::none);
    check_parameter(operation, "margin", options.margin, std::isfinite(options.margin), "finite");
    dtype = promote_types(given_a.dtype(), given_b.dtype(), operation);
    const DType wide = compute_dtype(dtype);
    a = given_a.to(wide);
    b = given_b.to(wide);
    square_a = sum(square(a), -1, true) + least_square;
    square_b = sum(square(b), -1, true) + least_square;
    lengths = sqrt(square_a) * sqrt(square_b);
    value = sum(a * b, -1, true) / lengths;
    attracts = equal(y, 1).unsqueeze(-1);
    repels = logical_and(equal(y, -1).unsqueeze(-1), greater(value, options.margin));
  }
};

Tensor cosine_forward(const Run& run, const CosineEmbeddingOptions& options, const Tensor& a,
                      const Tensor& b, const Tensor& y) {
  const Cosine c(run.name(), a, b, y, options);
  const Tensor values =
      where(c.attracts, 1 - c.value, where(c.repels, c.value - options.margin, zero_like(c.value)));
  return reduced_loss(values.reshape(c.shape), options.reduction).to(c.dtype);
}

Gradients cosine_gradient(const GradientCall& call, const CosineEmbeddingOptions& options) {
  const auto [of_a, of_b] = cosine_embedding_loss_backward(call.grad(), call.input(0),
                                                           call.input(1), call.input(2), options);
  return {of_a, of_b, Tensor()};
}

// ---- Gaussian negative log-likelihood

struct Gaussian {
  DType dtype;
  Tensor difference, variance;  // in the compute dtype; the variance is at least eps
  Shape shape;

  Gaussian(const char* operation, const Tensor& x, const Tensor& y, const Tensor& given,
           const GaussianNllOptions& options) {
    check_float(operation, "x", x);
    check_float(operation, "y", y);
    check_float(operation, "variance", given);
    const Source all[] = {x, y, given};
    common_device(operation, all);
    shape = x.shape();
    if (!(y.shape() == shape)) {
      throw ShapeError(message(operation, ": shapes differ: x is ", shape, ", y is ", y.shape()));
    }
    if (!are_shapes_broadcastable(given.shape(), shape) ||
        !(broadcast_shapes(given.shape(), shape) == shape)) {
      throw ShapeError(
          message(operation, ": variance is ", given.shape(), ", must broadcast to x ", shape));
    }
    detail::check_option(operation, "reduction", options.reduction, Reduction::none);
    check_parameter(operation, "eps", options.eps, options.eps > 0 && std::isfinite(options.eps),
                    "finite and above 0");
    dtype = promote_types(promote_types(x.dtype(), y.dtype(), operation), given.dtype(), operation);
    const DType wide = compute_dtype(dtype);
    // Without a gradient, as in PyTorch: the loss is differentiated at the replaced variance.
    const Tensor wide_variance = given.to(wide);
    const Tensor negative_variance = less(wide_variance.detach(), 0);
    if (x.device() == cpu_device && any(negative_variance).item<bool>()) {
      throw ValueError(message(operation, ": variance has a negative element"));
    }
    const Tensor plain = wide_variance.detach();
    const Tensor floored = where(
        negative_variance, full({}, std::numeric_limits<double>::quiet_NaN(), {wide, cpu_device}),
        maximum(plain, options.eps));
    // The value is replaced, the history stays.
    variance = wide_variance + (floored - plain);
    variance = where(equal(floored, plain), wide_variance, variance);
    difference = x.to(wide) - y.to(wide);
  }
};

Tensor gaussian_forward(const Run& run, const GaussianNllOptions& options, const Tensor& x,
                        const Tensor& y, const Tensor& variance) {
  const Gaussian g(run.name(), x, y, variance, options);
  Tensor values = 0.5 * (log(g.variance) + square(g.difference) / g.variance);
  if (options.full) values = values + 0.5 * std::log(2 * std::numbers::pi);
  return reduced_loss(values, options.reduction).to(g.dtype);
}

Gradients gaussian_gradient(const GradientCall& call, const GaussianNllOptions& options) {
  const GaussianNllGradients gradients =
      gaussian_nll_loss_backward(call.grad(), call.input(0), call.input(1), call.input(2), options);
  return {gradients.x, gradients.y, gradients.variance};
}

constexpr Reads all_three = input(0) | input(1) | input(2);
constexpr auto cosine_embedding_loss_op =
    define<cosine_forward, cosine_gradient>({.name = "cosine_embedding_loss",
                                             .inputs = {"a", "b", "y"},
                                             .reads = {all_three, all_three, no_gradient},
                                             .cast = Cast::up});
constexpr auto gaussian_nll_loss_op =
    define<gaussian_forward, gaussian_gradient>({.name = "gaussian_nll_loss",
                                                 .inputs = {"x", "y", "variance"},
                                                 .reads = {all_three, all_three, all_three},
                                                 .cast = Cast::up});

}  // namespace

Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& y,
                             const CosineEmbeddingOptions& options) {
  return dispatch(cosine_embedding_loss_op, options, a, b, y);
}

// The gradient of the cosine is b / (|a| |b|) − c · a / |a|² for a, and the same for b.
std::pair<Tensor, Tensor> cosine_embedding_loss_backward(const Tensor& grad_output, const Tensor& a,
                                                         const Tensor& b, const Tensor& y,
                                                         const CosineEmbeddingOptions& options) {
  const char* operation = "cosine_embedding_loss_backward";
  const Cosine c(operation, a, b, y, options);
  const Tensor g = value_gradient(operation, grad_output, c.shape, options.reduction, c.dtype);
  const Tensor each = g.broadcast_to(c.shape).unsqueeze(-1);
  const Tensor of_value = where(c.attracts, negative(each), where(c.repels, each, zero_like(each)));
  const Tensor across = of_value / c.lengths, along = of_value * c.value;
  return {(across * c.b - (along / c.square_a) * c.a).to(a.dtype()),
          (across * c.a - (along / c.square_b) * c.b).to(b.dtype())};
}

Tensor gaussian_nll_loss(const Tensor& x, const Tensor& y, const Tensor& variance,
                         const GaussianNllOptions& options) {
  return dispatch(gaussian_nll_loss_op, options, x, y, variance);
}

GaussianNllGradients gaussian_nll_loss_backward(const Tensor& grad_output, const Tensor& x,
                                                const Tensor& y, const Tensor& variance,
                                                const GaussianNllOptions& options) {
  const char* operation = "gaussian_nll_loss_backward";
  const Gaussian n(operation, x, y, variance, options);
  const Tensor g = value_gradient(operation, grad_output, n.shape, options.reduction, n.dtype);
  const Tensor slope = n.difference / n.variance;
  const Tensor of_x = g * slope;
  const Tensor of_variance = 0.5 * g * (1 / n.variance - square(slope));
  return {of_x.to(x.dtype()), negative(of_x).to(y.dtype()),
          reduce_broadcast_dims(of_variance, variance.shape()).to(variance.dtype())};
}

constinit const OpList ops::composed_loss_ops =
    listed<cosine_embedding_loss_op, gaussian_nll_loss_op>;

}  // namespace extensor
