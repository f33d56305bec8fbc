// Initial values of parameters. Every draw is a function of the generator's (seed, stream, offset),
// so the values do not depend on the number of threads.
//
//   Generator generator(42);
//   Tensor w = extensor::kaiming_uniform({out, in}, std::sqrt(5.0), FanMode::fan_in,
//                                        Nonlinearity::leaky_relu, float32, generator);
//
// uniform(shape, low, high) and normal(shape, mean, deviation) are in extensor/creation.h.
#pragma once

#include "extensor/creation.h"
#include "extensor/export.h"

EXTENSOR_BEGIN_API

namespace extensor {

// The number of inputs that one output sums, and the number of outputs that one input reaches, for
// a linear weight [out, in] or a convolution's [out, in / groups, k…]. ShapeError below two
// dimensions.
struct Fans {
  std::int64_t fan_in, fan_out;
};
Fans calculate_fans(const Shape& shape);

enum class FanMode : std::uint8_t { fan_in, fan_out };
enum class Nonlinearity : std::uint8_t { linear, sigmoid, tanh, relu, leaky_relu, selu };
// The factor that preserves the variance through a nonlinearity, as in PyTorch; `slope` is that of
// leaky_relu below 0.
double calculate_gain(Nonlinearity nonlinearity, StrictDouble slope = 0.01);

Tensor constant(const Shape& shape, StrictDouble value, const TensorOptions& options = {});

// Variance gain² · 2 / (fan_in + fan_out).
Tensor xavier_uniform(const Shape& shape, StrictDouble gain = 1, const TensorOptions& options = {},
                      Generator& generator = default_generator());
Tensor xavier_normal(const Shape& shape, StrictDouble gain = 1, const TensorOptions& options = {},
                     Generator& generator = default_generator());

// With fans that the shape does not give: xavier_uniform(fan_in, fan_out, shape). Variance
// 2 / (fan_in + fan_out). ValueError unless both are 0 or more and one is greater.
Tensor xavier_uniform(StrictInt fan_in, StrictInt fan_out, const Shape& shape,
                      const TensorOptions& options = {},
                      Generator& generator = default_generator());
Tensor xavier_normal(StrictInt fan_in, StrictInt fan_out, const Shape& shape,
                     const TensorOptions& options = {}, Generator& generator = default_generator());

// Variance gain² / fan, with the gain of the nonlinearity with the given slope.
Tensor kaiming_uniform(const Shape& shape, StrictDouble slope = 0, FanMode mode = FanMode::fan_in,
                       Nonlinearity nonlinearity = Nonlinearity::leaky_relu,
                       const TensorOptions& options = {},
                       Generator& generator = default_generator());
Tensor kaiming_normal(const Shape& shape, StrictDouble slope = 0, FanMode mode = FanMode::fan_in,
                      Nonlinearity nonlinearity = Nonlinearity::leaky_relu,
                      const TensorOptions& options = {},
                      Generator& generator = default_generator());

// A normal distribution of that mean and deviation, truncated to the interval from `lower` to
// `upper`. ValueError unless lower < upper and the distribution reaches the interval.
Tensor trunc_normal(const Shape& shape, StrictDouble mean = 0, StrictDouble deviation = 1,
                    StrictDouble lower = -2, StrictDouble upper = 2,
                    const TensorOptions& options = {}, Generator& generator = default_generator());

// [rows, …] seen as a matrix [rows, columns] with orthonormal rows or columns, whichever are fewer,
// drawn uniformly from all such matrices, times `gain`. Computed in float64.
Tensor orthogonal(const Shape& shape, StrictDouble gain = 1, const TensorOptions& options = {},
                  Generator& generator = default_generator());

// ---- a dtype alone

template <IsDType T>
Tensor constant(const Shape& shape, StrictDouble value, T dtype) {
  return constant(shape, value, {.dtype = dtype});
}
template <IsDType T>
Tensor xavier_uniform(const Shape& shape, StrictDouble gain, T dtype,
                      Generator& generator = default_generator()) {
  return xavier_uniform(shape, gain, {.dtype = dtype}, generator);
}
template <IsDType T>
Tensor xavier_normal(const Shape& shape, StrictDouble gain, T dtype,
                     Generator& generator = default_generator()) {
  return xavier_normal(shape, gain, {.dtype = dtype}, generator);
}
template <IsDType T>
Tensor xavier_uniform(StrictInt fan_in, StrictInt fan_out, const Shape& shape, T dtype,
                      Generator& generator = default_generator()) {
  return xavier_uniform(fan_in, fan_out, shape, {.dtype = dtype}, generator);
}
template <IsDType T>
Tensor xavier_normal(StrictInt fan_in, StrictInt fan_out, const Shape& shape, T dtype,
                     Generator& generator = default_generator()) {
  return xavier_normal(fan_in, fan_out, shape, {.dtype = dtype}, generator);
}
template <IsDType T>
Tensor kaiming_uniform(const Shape& shape, StrictDouble slope, FanMode mode,
                       Nonlinearity nonlinearity, T dtype,
                       Generator& generator = default_generator()) {
  return kaiming_uniform(shape, slope, mode, nonlinearity, {.dtype = dtype}, generator);
}
template <IsDType T>
Tensor kaiming_normal(const Shape& shape, StrictDouble slope, FanMode mode,
                      Nonlinearity nonlinearity, T dtype,
                      Generator& generator = default_generator()) {
  return kaiming_normal(shape, slope, mode, nonlinearity, {.dtype = dtype}, generator);
}
template <IsDType T>
Tensor trunc_normal(const Shape& shape, StrictDouble mean, StrictDouble deviation,
                    StrictDouble lower, StrictDouble upper, T dtype,
                    Generator& generator = default_generator()) {
  return trunc_normal(shape, mean, deviation, lower, upper, {.dtype = dtype}, generator);
}
template <IsDType T>
Tensor orthogonal(const Shape& shape, StrictDouble gain, T dtype,
                  Generator& generator = default_generator()) {
  return orthogonal(shape, gain, {.dtype = dtype}, generator);
}

}  // namespace extensor

EXTENSOR_END_API
