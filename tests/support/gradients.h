// Gradient checks for tests, in addition to those that op_database_test.cpp makes for every op.
#pragma once

#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <vector>

#include "extensor/extensor.h"
#include "support/draw.h"

namespace gradients {

using extensor::Tensor;
using Tensors = std::vector<Tensor>;

// Gradients below 1 / magnification are compared absolutely, all others relatively.
inline constexpr double magnification = 1024;

inline int& checks_made() {
  static int count = 0;
  return count;
}

// Prints the number of gradients that a test program has checked.
class Counter : public ::testing::Environment {
 public:
  void TearDown() override { std::cout << checks_made() << " gradient checks\n"; }
};

// Checks that fourth-order finite differences in float64 agree with `backward` to relative 1e-6.
inline void expect_gradient(const std::string& name, const extensor::ForwardFunction& forward,
                            const extensor::BackwardFunction& backward, const Tensors& inputs) {
  ++checks_made();
  extensor::GradcheckOptions options;
  options.tolerance = 1e-6;
  options.step = draw::step;
  options.seed = 11;
  const auto magnified = [&](const Tensors& in) {
    return extensor::multiply(forward(in), magnification);
  };
  const auto gradients = [&](const Tensor& g, const Tensors& in) {
    return backward(extensor::multiply(g, magnification), in);
  };
  const extensor::GradcheckResult result =
      extensor::gradcheck(magnified, gradients, inputs, options);
  EXPECT_TRUE(result.passed) << name << ": " << result.message;
}

}  // namespace gradients
