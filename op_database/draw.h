// Numbers to test the rows with, from the standard library's generator: the same in every run.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "op_database/elementwise_rows.h"

namespace draw {

using extensor::Shape;
using extensor::Tensor;

// The step of the finite differences in extensor::gradcheck, and the distance that an element keeps
// from a kink: the stencil spans two steps, and a half dtype rounds the element first.
inline constexpr double step = 1e-3;
inline double reach(double x) { return 4 * step * std::max(1.0, std::fabs(x)); }

inline std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (std::int64_t size : shape) count *= size;
  return count;
}

inline std::vector<double> uniform_values(std::int64_t count, double lo, double hi, unsigned seed) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> distribution(lo, hi);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = distribution(engine);
  return values;
}

inline Tensor uniform(const Shape& shape, double lo, double hi, unsigned seed) {
  return extensor::from_data(uniform_values(element_count(shape), lo, hi, seed), shape);
}

// In the row's domain, away from its kinks.
inline Tensor inputs_of(const extensor::op_database::UnaryRow& row, const Shape& shape,
                        unsigned seed) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> distribution(row.lo, row.hi);
  std::vector<double> values;
  while (static_cast<std::int64_t>(values.size()) < element_count(shape)) {
    const double x = distribution(engine);
    if (row.kinks.distance(x) > reach(x)) values.push_back(x);
  }
  return extensor::from_data(values, shape);
}

// Whether the row is smooth on the stencils of a and b.
inline bool is_smooth_around(const extensor::op_database::BinaryRow& row, double a, double b) {
  const bool sign = row.kink(a, b) > 0;
  for (double i = -1; i <= 1; i += 0.5) {
    for (double j = -1; j <= 1; j += 0.5) {
      const double at = row.kink(a + i * reach(a), b + j * reach(b));
      if (at == 0 || (at > 0) != sign) return false;
    }
  }
  return true;
}

// Two operands that broadcast, in the row's domain, such that every pair of elements that meet is
// away from the kinks.
inline std::pair<Tensor, Tensor> inputs_of(const extensor::op_database::BinaryRow& row,
                                           const Shape& a_shape, const Shape& b_shape,
                                           unsigned seed) {
  for (;; ++seed) {
    std::pair<Tensor, Tensor> drawn{uniform(a_shape, row.lo, row.hi, seed),
                                    uniform(b_shape, row.lo, row.hi, seed + 1000)};
    const Shape shape = extensor::broadcast_shapes(a_shape, b_shape);
    // Offsets into the two operands of every pair.
    const auto a_strides =
        extensor::compute_broadcast_strides(a_shape, drawn.first.strides(), shape);
    const auto b_strides =
        extensor::compute_broadcast_strides(b_shape, drawn.second.strides(), shape);
    std::vector<double> a = drawn.first.to_vector<double>();
    std::vector<double> b = drawn.second.to_vector<double>();
    std::mt19937_64 engine(seed + 2000);
    std::uniform_real_distribution<double> distribution(row.lo, row.hi);
    // Replaces one number of each bad pair, until none is bad; after too many rounds, draws anew.
    for (int round = 0; round < 2000; ++round) {
      bool clean = true;
      for (std::int64_t i = 0; i < element_count(shape); ++i) {
        std::int64_t rest = i, at_a = 0, at_b = 0;
        for (std::size_t d = shape.size(); d-- > 0;) {
          at_a += rest % shape[d] * a_strides[d];
          at_b += rest % shape[d] * b_strides[d];
          rest /= shape[d];
        }
        double &x = a[static_cast<std::size_t>(at_a)], &y = b[static_cast<std::size_t>(at_b)];
        if (is_smooth_around(row, x, y)) continue;
        clean = false;
        ((round & 1) != 0 ? x : y) = distribution(engine);
      }
      if (clean) return {extensor::from_data(a, a_shape), extensor::from_data(b, b_shape)};
    }
  }
}

}  // namespace draw
