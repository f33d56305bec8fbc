// Random choices by weight.
#include <cmath>
#include <limits>

#include "core/check.h"
#include "extensor/creation.h"
#include "extensor/cumulative.h"
#include "extensor/elementwise.h"
#include "extensor/reduction.h"
#include "extensor/sorting.h"
#include "ops/launch.h"

namespace extensor {

namespace {

using detail::message;

void check_weights(const Tensor& weights, std::int64_t count, bool replacement) {
  constexpr const char* operation = "multinomial";
  ops::check_float(operation, "weights", weights);
  if (weights.ndim() != 1 && weights.ndim() != 2) {
    throw ShapeError(
        message(operation, ": weights are ", weights.shape(), ", must be [n] or [rows, n]"));
  }
  if (count < 0) throw ValueError(message(operation, ": count is ", count, ", must be 0 or more"));
  if (weights.ndim() == 2 && weights.size(0) == 0) return;
  if (weights.size(-1) == 0) throw ValueError(message(operation, ": there are no weights"));
  if (!all(isfinite(weights) && greater_equal(weights, 0)).item<bool>()) {
    throw ValueError(message(operation, ": a weight is negative or not finite"));
  }
  const auto fewest = min_reduce(count_nonzero(weights, -1)).item<std::int64_t>();
  if (fewest == 0) throw ValueError(message(operation, ": all weights of a row are 0"));
  if (!replacement && fewest < count) {
    throw ValueError(message(operation, ": count is ", count, " without replacement, a row has ",
                             fewest, " weights above 0"));
  }
}

// The first number whose cumulative weight exceeds a uniform draw from 0 to the total.
Tensor drawn_with_replacement(const Tensor& weights, const Tensor& uniform) {
  const Tensor sums = cumulative_sum(weights, -1);
  const Tensor total = max_reduce(sums, -1, true);
  // The product may round up to the total, which is past the last number with a weight.
  const Tensor last = count_nonzero(less(sums, total), -1, true);
  return minimum(searchsorted(sums, uniform * total, true), last);
}

// The largest values of weight / e with exponential draws e.
Tensor drawn_without_replacement(const Tensor& weights, const Tensor& uniform, std::int64_t count) {
  // 1 − uniform is in (0, 1], so that e is finite and 0 or more.
  const Tensor exponential = -log1p(-uniform);
  constexpr double smallest = std::numeric_limits<double>::min();
  const Tensor keys = weights / maximum(exponential, smallest);
  return topk(where(greater(weights, 0), keys, -1), count).indices;
}

}  // namespace

Tensor multinomial(const Tensor& weights, StrictInt count, StrictBool replacement,
                   Generator& generator) {
  check_weights(weights.detach(), count, replacement);
  const Tensor wide = weights.detach().to(float64);
  Shape shape = weights.shape();
  if (replacement) shape.back() = count;
  const Tensor uniform = rand(shape, {float64, weights.device()}, generator);
  return replacement ? drawn_with_replacement(wide, uniform)
                     : drawn_without_replacement(wide, uniform, count);
}

}  // namespace extensor
