// Helpers for the tests of an op family: comparing results, checking gradients, and making tensors.
// A program that includes it counts its gradient checks.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "extensor/extensor.h"
#include "support/compare.h"
#include "support/draw.h"
#include "support/gradients.h"
#include "support/layouts.h"

namespace family_test {

using compare::identical;
using compare::values_of;
using extensor::DType;
using extensor::Shape;
using extensor::Tensor;
using gradients::expect_gradient;
using gradients::Tensors;
using layouts::Layout;

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
inline constexpr DType float_dtypes[] = {DType::float16, DType::bfloat16, DType::float32,
                                         DType::float64};

inline const auto* const counter = ::testing::AddGlobalTestEnvironment(new gradients::Counter);

inline Tensor vector_of(std::initializer_list<double> values, DType dtype = DType::float64) {
  return extensor::from_data(std::vector<double>(values)).to(dtype);
}

// Uniform numbers between −range and range.
inline Tensor laid_out(const Shape& shape, Layout layout, unsigned seed,
                       DType dtype = DType::float64, double range = 2) {
  return layouts::with_layout(
      draw::uniform(layouts::drawn_shape(layout, shape), -range, range, seed).to(dtype), layout,
      shape);
}

// Units of the last place at magnitude 1.
inline double spacing(DType dtype) { return std::ldexp(1.0, 1 - compare::format_of(dtype).digits); }

// The largest magnitude; 0 if empty.
inline double largest(const Tensor& x) {
  return x.numel() == 0 ? 0 : max_reduce(abs(x.to(DType::float64))).item<double>();
}

}  // namespace family_test
