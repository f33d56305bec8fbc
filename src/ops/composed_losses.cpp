// Losses that are composed of other ops: cosine embedding and Gaussian negative log-likelihood.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/check.h"
#include "core/graph.h"
#include "core/parallel.h"
#include "extensor/broadcasting.h"
#include "extensor/creation.h"
#include "extensor/elementwise.h"
#include "extensor/losses.h"
#include "extensor/manipulation.h"
#include "extensor/reduction.h"
#include "ops/chunks.h"
#include "ops/launch.h"
#include "ops/loss_support.h"
#include "ops/registry.h"

namespace extensor {

namespace {

using detail::message;
using expression::Value;
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

// Blocks of the rows of tensors [..., width] that stay in the cache with their products. There is
// one of all rows on another device, and if the tensors are recorded.
struct RowBlocks {
  std::int64_t width, rows, step;

  RowBlocks(const Tensor& x, bool recorded) : width(x.size(-1)), rows(1), step(1) {
    constexpr std::int64_t elements = 1 << 14;
    if (x.numel() <= elements || !(x.device() == cpu_device) || recorded) return;
    rows = x.numel() / width;
    step = std::max<std::int64_t>(1, elements / width);
  }
  bool is_one() const { return rows <= step; }
  // Detached: recording is a property of the thread, and blocks run on several.
  Tensor as_rows(const Tensor& x) const { return x.detach().reshape({rows, x.size(-1)}); }

  // Threads share the blocks.
  template <class Function>
  void for_each(const Function& f) const {
    detail::parallel_for((rows + step - 1) / step, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        f([&](const Tensor& x) {
          return x.slice(0, block * step, std::min(rows, (block + 1) * step));
        });
      }
    });
  }
};

// Σ a · a, Σ b · b and Σ a · b over the last axis, each [..., 1].
struct RowProducts {
  Tensor aa, bb, ab;

  RowProducts(const Tensor& a, const Tensor& b) {
    const RowBlocks blocks(a, detail::records(a, b));
    const auto product = [](const Tensor& x, const Tensor& y) { return sum(x * y, -1, true); };
    if (blocks.is_one()) {
      aa = product(a, a);
      bb = product(b, b);
      ab = product(a, b);
      return;
    }
    const Tensor all_a = blocks.as_rows(a), all_b = blocks.as_rows(b);
    const Tensor sums = empty({3, blocks.rows, 1}, {a.dtype(), a.device()});
    const Tensor of_aa = sums[0], of_bb = sums[1], of_ab = sums[2];
    blocks.for_each([&](const auto& part) {
      const Tensor x = part(all_a), y = part(all_b);
      part(of_aa).copy_from(product(x, x));
      part(of_bb).copy_from(product(y, y));
      part(of_ab).copy_from(product(x, y));
    });
    Shape shape = a.shape();
    shape.back() = 1;
    aa = of_aa.reshape(shape);
    bb = of_bb.reshape(shape);
    ab = of_ab.reshape(shape);
  }
};

// across · b − along · a, for one number of `across` and `along` in each row.
Tensor row_difference(const Tensor& across, const Tensor& b, const Tensor& along, const Tensor& a,
                      DType dtype) {
  const RowBlocks blocks(a, detail::records(across, b, along, a));
  if (blocks.is_one()) return (across * b - along * a).to(dtype);
  const Tensor all_a = blocks.as_rows(a), all_b = blocks.as_rows(b);
  const Tensor all_across = blocks.as_rows(across), all_along = blocks.as_rows(along);
  Tensor result = empty({blocks.rows, blocks.width}, {dtype, a.device()});
  blocks.for_each([&](const auto& part) {
    const Tensor first = part(all_across) * part(all_b), second = part(all_along) * part(all_a);
    const Source parts[] = {first, second};
    Tensor to = part(result);
    launch(ElementwiseOp::subtract, a.dtype(), parts, to, {}, {}, result.numel());
  });
  return result.reshape(a.shape());
}

struct Cosine {
  DType dtype;
  Shape shape;                                // of the unreduced values
  Tensor a, b;                                // in the compute dtype
  Tensor square_a, square_b, lengths, value;  // [..., 1]
  Tensor attracts, repels;                    // [..., 1], bool

  // The squares and the cosine, as a forward has saved them, or undefined.
  struct Known {
    Tensor square_a, square_b, value;
  };

  Cosine(const char* operation, const Tensor& given_a, const Tensor& given_b, const Tensor& y,
         const CosineEmbeddingOptions& options, const Known& known) {
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
    const bool is_known = known.value.defined() && !detail::records(a, b);
    if (is_known) {
      square_a = known.square_a;
      square_b = known.square_b;
    } else {
      const RowProducts products(a, b);
      square_a = products.aa + least_square;
      square_b = products.bb + least_square;
      value = products.ab;
    }
    lengths = sqrt(square_a) * sqrt(square_b);
    value = is_known ? known.value : value / lengths;
    attracts = equal(y, 1).unsqueeze(-1);
    repels = logical_and(equal(y, -1).unsqueeze(-1), greater(value, options.margin));
  }
};

// Results: the loss and, if recorded, the squares and the cosines of the rows, for the gradient.
Results cosine_forward(const Run& run, const CosineEmbeddingOptions& options, const Tensor& a,
                       const Tensor& b, const Tensor& y) {
  const Cosine c(run.name(), a, b, y, options, {});
  const Tensor values =
      where(c.attracts, 1 - c.value, where(c.repels, c.value - options.margin, zero_like(c.value)));
  Results results(4);
  results[0] = reduced_loss(values.reshape(c.shape), options.reduction).to(c.dtype);
  if (run.recorded) {
    results[1] = c.square_a;
    results[2] = c.square_b;
    results[3] = c.value;
  }
  return results;
}

// The gradient of the cosine is b / (|a| |b|) − c · a / |a|² for a, and the same for b.
std::pair<Tensor, Tensor> cosine_gradients(const Tensor& grad_output, const Tensor& a,
                                           const Tensor& b, const Tensor& y,
                                           const CosineEmbeddingOptions& options,
                                           const Cosine::Known& known) {
  const char* operation = "cosine_embedding_loss_backward";
  const Cosine c(operation, a, b, y, options, known);
  const Tensor g = value_gradient(operation, grad_output, c.shape, options.reduction, c.dtype);
  const Tensor each = g.broadcast_to(c.shape).unsqueeze(-1);
  const Tensor of_value = where(c.attracts, negative(each), where(c.repels, each, zero_like(each)));
  const Tensor across = of_value / c.lengths, along = of_value * c.value;
  return {row_difference(across, c.b, along / c.square_a, c.a, a.dtype()),
          row_difference(across, c.a, along / c.square_b, c.b, b.dtype())};
}

Gradients cosine_gradient(const GradientCall& call, const CosineEmbeddingOptions& options) {
  const auto [of_a, of_b] =
      cosine_gradients(call.grad(), call.input(0), call.input(1), call.input(2), options,
                       {call.result(1), call.result(2), call.result(3)});
  return {of_a, of_b, Tensor()};
}

// ---- Gaussian negative log-likelihood

// Whether the CPU finds a number below 0; other devices would have to wait for the answer.
bool has_negative(const Tensor& x) {
  if (!(x.device() == cpu_device) || x.numel() == 0) return false;
  const double least = min_reduce(x).to(DType::float64).item<double>();
  return least < 0 || (std::isnan(least) && any(less(x, 0)).item<bool>());
}

struct Gaussian {
  DType dtype, wide;
  Shape shape;
  Tensor variance;  // as it is given, or already replaced
  bool replaced = false;
  double eps;

  // `was_checked`: the forward has looked for negative variances.
  Gaussian(const char* operation, const Tensor& x, const Tensor& y, const Tensor& given,
           const GaussianNllOptions& options, bool was_checked = false)
      : variance(given), eps(options.eps) {
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
    wide = compute_dtype(dtype);
    if (!was_checked && has_negative(given.detach())) {
      throw ValueError(message(operation, ": variance has a negative element"));
    }
  }

  // At least eps; NaN for a negative variance, which only the CPU refuses.
  Value floored(const Value& given) const {
    if (replaced) return given;
    return select(given < 0, std::numeric_limits<double>::quiet_NaN(), max(given, eps));
  }

  // Replaces the variance without a gradient, as in PyTorch: the loss is differentiated at the
  // replaced variance.
  void replace_value() {
    const Tensor history = variance.to(wide), plain = history.detach();
    const Tensor instead = where(
        less(plain, 0), full({}, std::numeric_limits<double>::quiet_NaN(), {wide, cpu_device}),
        maximum(plain, eps));
    variance = where(equal(instead, plain), history, history + (instead - plain));
    replaced = true;
  }
};

Tensor gaussian_forward(const Run& run, const GaussianNllOptions& options, const Tensor& x,
                        const Tensor& y, const Tensor& variance) {
  const Gaussian n(run.name(), x, y, variance, options);
  const double offset = options.full ? 0.5 * std::log(2 * std::numbers::pi) : 0;
  const Tensor inputs[] = {x, y, variance};
  const DType outputs[] = {n.wide};
  const std::vector<Tensor> values =
      evaluate_in_chunks({run.name(), n.shape, inputs, outputs, n.wide},
                         [&](std::span<const Value> in, std::span<Value> out) {
                           const Value v = n.floored(in[2]), difference = in[0] - in[1];
                           out[0] = 0.5 * (log(v) + difference * difference / v);
                           if (offset != 0) out[0] = out[0] + offset;
                         });
  return reduced_loss(values[0], options.reduction).to(n.dtype);
}

// The gradients of x, y and the variance that `needs` asks for; the others are undefined.
Gradients gaussian_gradients(const char* operation, const Tensor& grad_output, const Tensor& x,
                             const Tensor& y, const Tensor& variance,
                             const GaussianNllOptions& options, const std::array<bool, 3>& needs,
                             bool was_checked) {
  Gaussian n(operation, x, y, variance, options, was_checked);
  const Tensor g = value_gradient(operation, grad_output, n.shape, options.reduction, n.dtype);
  const bool whole = variance.shape() == n.shape;
  if (detail::records(g, x, y, variance)) n.replace_value();
  const Tensor inputs[] = {g, x, y, n.variance};
  const DType dtypes[] = {x.dtype(), y.dtype(), whole ? variance.dtype() : n.wide};
  std::vector<DType> outputs;
  for (std::size_t k = 0; k < 3; ++k) {
    if (needs[k]) outputs.push_back(dtypes[k]);
  }
  std::vector<Tensor> found =
      evaluate_in_chunks({operation, n.shape, inputs, outputs, n.wide},
                         [&](std::span<const Value> in, std::span<Value> out) {
                           const Value v = n.floored(in[3]), slope = (in[1] - in[2]) / v;
                           std::size_t at = 0;
                           if (needs[0]) out[at++] = in[0] * slope;
                           if (needs[1]) out[at++] = -(in[0] * slope);
                           if (needs[2]) out[at++] = 0.5 * in[0] * (1 / v - slope * slope);
                         });
  Gradients gradients(3);
  std::size_t at = 0;
  for (std::size_t k = 0; k < 3; ++k) {
    if (needs[k]) gradients[k] = std::move(found[at++]);
  }
  if (needs[2] && !whole) {
    gradients[2] = reduce_broadcast_dims(gradients[2], variance.shape()).to(variance.dtype());
  }
  return gradients;
}

Gradients gaussian_gradient(const GradientCall& call, const GaussianNllOptions& options) {
  const std::array<bool, 3> needs{call.needs(0), call.needs(1), call.needs(2)};
  return gaussian_gradients("gaussian_nll_loss_backward", call.grad(), call.input(0), call.input(1),
                            call.input(2), options, needs, true);
}

constexpr Reads all_three = input(0) | input(1) | input(2);
constexpr Reads all_of_cosine = all_three | result(1) | result(2) | result(3);
constexpr auto cosine_embedding_loss_op =
    define<cosine_forward, cosine_gradient>({.name = "cosine_embedding_loss",
                                             .inputs = {"a", "b", "y"},
                                             .reads = {all_of_cosine, all_of_cosine, no_gradient},
                                             .cast = Cast::up});
constexpr auto gaussian_nll_loss_op =
    define<gaussian_forward, gaussian_gradient>({.name = "gaussian_nll_loss",
                                                 .inputs = {"x", "y", "variance"},
                                                 .reads = {all_three, all_three, all_three},
                                                 .cast = Cast::up});

}  // namespace

Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& y,
                             const CosineEmbeddingOptions& options) {
  return dispatch(cosine_embedding_loss_op, options, a, b, y)[0];
}

std::pair<Tensor, Tensor> cosine_embedding_loss_backward(const Tensor& grad_output, const Tensor& a,
                                                         const Tensor& b, const Tensor& y,
                                                         const CosineEmbeddingOptions& options) {
  return cosine_gradients(grad_output, a, b, y, options, {});
}

Tensor gaussian_nll_loss(const Tensor& x, const Tensor& y, const Tensor& variance,
                         const GaussianNllOptions& options) {
  return dispatch(gaussian_nll_loss_op, options, x, y, variance);
}

GaussianNllGradients gaussian_nll_loss_backward(const Tensor& grad_output, const Tensor& x,
                                                const Tensor& y, const Tensor& variance,
                                                const GaussianNllOptions& options) {
  Gradients gradients = gaussian_gradients("gaussian_nll_loss_backward", grad_output, x, y,
                                           variance, options, {true, true, true}, false);
  return {std::move(gradients[0]), std::move(gradients[1]), std::move(gradients[2])};
}

constinit const OpList ops::composed_loss_ops =
    listed<cosine_embedding_loss_op, gaussian_nll_loss_op>;

}  // namespace extensor
