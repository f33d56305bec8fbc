#include "extensor/initializers.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "core/make_tensor.h"
#include "core/truncated_normal.h"
#include "extensor/elementwise.h"
#include "extensor/matrix.h"
#include "extensor/reduction.h"
#include "ops/random_tensor.h"

namespace extensor {

namespace {

using detail::message;

Fans fans_of(const char* operation, const Shape& shape) {
  if (shape.size() < 2) {
    throw ShapeError(
        message(operation, ": shape is ", shape, ", needs two dimensions at least: [out, in, …]"));
  }
  detail::checked_numel(operation, shape);
  std::int64_t field = 1;
  for (std::size_t d = 2; d < shape.size(); ++d) field *= shape[d];
  return {shape[1] * field, shape[0] * field};
}

void check_factor(const char* operation, const char* argument, double value) {
  if (std::isfinite(value)) return;
  throw ValueError(message(operation, ": ", argument, " is ", value, ", must be finite"));
}

double xavier_deviation(const char* operation, const Shape& shape, double gain) {
  check_factor(operation, "gain", gain);
  const Fans fans = fans_of(operation, shape);
  const double sum = static_cast<double>(fans.fan_in) + static_cast<double>(fans.fan_out);
  return sum == 0 ? 0 : std::fabs(gain) * std::sqrt(2 / sum);
}

double kaiming_deviation(const char* operation, const Shape& shape, double slope, FanMode mode,
                         Nonlinearity nonlinearity) {
  check_factor(operation, "slope", slope);
  detail::check_option(operation, "mode", mode, FanMode::fan_out);
  detail::check_option(operation, "nonlinearity", nonlinearity, Nonlinearity::selu);
  const Fans fans = fans_of(operation, shape);
  const std::int64_t fan = mode == FanMode::fan_in ? fans.fan_in : fans.fan_out;
  return fan == 0 ? 0 : calculate_gain(nonlinearity, slope) / std::sqrt(static_cast<double>(fan));
}

// A uniform distribution with this standard deviation extends to √3 times it.
Tensor uniform_of(const Shape& shape, double deviation, const TensorOptions& options,
                  Generator& generator) {
  const double bound = std::sqrt(3.0) * deviation;
  return uniform(shape, -bound, bound, options, generator);
}

}  // namespace

Fans calculate_fans(const Shape& shape) { return fans_of("calculate_fans", shape); }

double calculate_gain(Nonlinearity nonlinearity, StrictDouble slope) {
  detail::check_option("calculate_gain", "nonlinearity", nonlinearity, Nonlinearity::selu);
  switch (nonlinearity) {
    case Nonlinearity::linear:
    case Nonlinearity::sigmoid:
      return 1;
    case Nonlinearity::tanh:
      return 5.0 / 3;
    case Nonlinearity::relu:
      return std::sqrt(2.0);
    case Nonlinearity::leaky_relu:
      return std::sqrt(2 / (1 + slope * slope));
    case Nonlinearity::selu:
      return 0.75;
  }
  __builtin_unreachable();
}

Tensor constant(const Shape& shape, StrictDouble value, const TensorOptions& options) {
  return full(shape, value,
              {options.dtype.value_or(default_float), options.device, options.memory_format});
}

Tensor xavier_uniform(const Shape& shape, StrictDouble gain, const TensorOptions& options,
                      Generator& generator) {
  ops::check_random_float("xavier_uniform", options);
  return uniform_of(shape, xavier_deviation("xavier_uniform", shape, gain), options, generator);
}

Tensor xavier_normal(const Shape& shape, StrictDouble gain, const TensorOptions& options,
                     Generator& generator) {
  ops::check_random_float("xavier_normal", options);
  return normal(shape, 0, xavier_deviation("xavier_normal", shape, gain), options, generator);
}

namespace {

double deviation_of_fans(const char* operation, std::int64_t fan_in, std::int64_t fan_out) {
  if (fan_in < 0 || fan_out < 0 || (fan_in == 0 && fan_out == 0)) {
    throw ValueError(message(operation, ": fan_in is ", fan_in, " and fan_out is ", fan_out,
                             ", must be 0 or more and not both 0"));
  }
  return std::sqrt(2 / (static_cast<double>(fan_in) + static_cast<double>(fan_out)));
}

}  // namespace

Tensor xavier_uniform(StrictInt fan_in, StrictInt fan_out, const Shape& shape,
                      const TensorOptions& options, Generator& generator) {
  ops::check_random_float("xavier_uniform", options);
  return uniform_of(shape, deviation_of_fans("xavier_uniform", fan_in, fan_out), options,
                    generator);
}

Tensor xavier_normal(StrictInt fan_in, StrictInt fan_out, const Shape& shape,
                     const TensorOptions& options, Generator& generator) {
  ops::check_random_float("xavier_normal", options);
  return normal(shape, 0, deviation_of_fans("xavier_normal", fan_in, fan_out), options, generator);
}

Tensor kaiming_uniform(const Shape& shape, StrictDouble slope, FanMode mode,
                       Nonlinearity nonlinearity, const TensorOptions& options,
                       Generator& generator) {
  ops::check_random_float("kaiming_uniform", options);
  const double deviation = kaiming_deviation("kaiming_uniform", shape, slope, mode, nonlinearity);
  return uniform_of(shape, deviation, options, generator);
}

Tensor kaiming_normal(const Shape& shape, StrictDouble slope, FanMode mode,
                      Nonlinearity nonlinearity, const TensorOptions& options,
                      Generator& generator) {
  ops::check_random_float("kaiming_normal", options);
  const double deviation = kaiming_deviation("kaiming_normal", shape, slope, mode, nonlinearity);
  return normal(shape, 0, deviation, options, generator);
}

Tensor trunc_normal(const Shape& shape, StrictDouble mean, StrictDouble deviation,
                    StrictDouble lower, StrictDouble upper, const TensorOptions& options,
                    Generator& generator) {
  constexpr const char* operation = "trunc_normal";
  ops::check_random_float(operation, options);
  if (!(deviation > 0) || !std::isfinite(deviation) || !std::isfinite(mean)) {
    throw ValueError(message(operation, ": mean is ", mean, " and deviation is ", deviation,
                             ", both must be finite and the deviation above 0"));
  }
  if (!(lower < upper)) {
    throw ValueError(
        message(operation, ": lower is ", lower, " and upper is ", upper, ", must be below it"));
  }
  if (!detail::TruncatedNormal(mean, deviation, lower, upper).has_mass()) {
    throw ValueError(message(operation, ": from lower, ", lower, ", to upper, ", upper,
                             ", there is nothing of a normal of mean ", mean, " and deviation ",
                             deviation));
  }
  backend::RandomCall call = ops::random_call(backend::RandomOp::truncated_normal, mean, deviation);
  call.lower = lower;
  call.upper = upper;
  return ops::random_tensor(operation, call, shape, options, generator);
}

namespace {

// Removes the components of x along the orthonormal rows of `basis`. A second pass removes the
// residue that rounding leaves, which would keep the rows from being orthogonal.
Tensor without_components(const Tensor& x, const Tensor& basis) {
  Tensor rest = x;
  for (int pass = 0; pass < 2; ++pass) {
    rest = subtract(rest, matmul(matmul(rest, basis.transpose()), basis));
  }
  return rest;
}

// Orthonormalizes the rows of x in order, as the QR decomposition with a positive diagonal does for
// columns. Works in blocks, so that most of the work is matrix products.
Tensor orthonormal_rows(const Tensor& x) {
  constexpr std::int64_t block = 32;
  Tensor q = empty_like(x);
  const std::int64_t rows = x.size(0);
  for (std::int64_t begin = 0; begin < rows; begin += block) {
    const std::int64_t end = std::min(rows, begin + block);
    const Tensor fresh = without_components(x.slice(0, begin, end), q.slice(0, 0, begin));
    for (std::int64_t i = begin; i < end; ++i) {
      const Tensor row =
          without_components(fresh.slice(0, i - begin, i - begin + 1), q.slice(0, begin, i));
      q.slice(0, i, i + 1).copy_from(divide(row, sqrt(sum(square(row)))));
    }
  }
  return q;
}

}  // namespace

Tensor orthogonal(const Shape& shape, StrictDouble gain, const TensorOptions& options,
                  Generator& generator) {
  constexpr const char* operation = "orthogonal";
  ops::check_random_float(operation, options);
  check_factor(operation, "gain", gain);
  fans_of(operation, shape);
  const std::int64_t rows = shape[0];
  std::int64_t columns = 1;
  for (std::size_t d = 1; d < shape.size(); ++d) columns *= shape[d];
  const Tensor drawn = normal({std::min(rows, columns), std::max(rows, columns)}, 0, 1,
                              {DType::float64, options.device}, generator);
  const Tensor q =
      multiply(orthonormal_rows(drawn), gain).to(options.dtype.value_or(default_float));
  return (rows > columns ? q.transpose() : q).contiguous().reshape(shape);
}

}  // namespace extensor
