// Random complex numbers, and gradients that are compared with finite differences in the directions
// of both parts.
#pragma once

#include <gtest/gtest.h>

#include <complex>
#include <random>
#include <string>
#include <vector>

#include "extensor/extensor.h"

namespace extensor {

inline Tensor numbers(std::vector<std::complex<double>> values, const Shape& shape) {
  return from_data(values, shape);
}

inline Tensor drawn_reals(const Shape& shape, double lo, double hi, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> draw(lo, hi);
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  std::vector<double> values(count);
  for (double& value : values) value = draw(engine);
  return from_data(values, shape);
}
// Random numbers whose parts are in lo … hi.
inline Tensor drawn(const Shape& shape, double lo, double hi, std::uint64_t seed) {
  return complex(drawn_reals(shape, lo, hi, seed), drawn_reals(shape, lo, hi, seed + 1000));
}

// The gradients of a function by autograd, for gradcheck; and those of its gradient.
inline void expect_gradient(const std::string& what, const ForwardFunction& function,
                            const std::vector<Tensor>& inputs, bool second = true) {
  const auto leaves = [](const std::vector<Tensor>& in) {
    std::vector<Tensor> list;
    for (const Tensor& x : in) list.push_back(x.detach().requires_grad_());
    return list;
  };
  const BackwardFunction backward = [&](const Tensor& g, const std::vector<Tensor>& in) {
    const std::vector<Tensor> list = leaves(in);
    return grad({function(list)}, list, {.grad_outputs = {g}});
  };
  const GradcheckResult first = gradcheck(function, backward, inputs);
  EXPECT_TRUE(first.passed) << what << ": " << first.message;
  if (!second) return;
  // The gradient with respect to input 0, as a function of all inputs.
  const Tensor weights = [&] {
    const Tensor y = function(inputs);
    return is_complex(y) ? drawn(y.shape(), 0.5, 1.5, 77) : drawn_reals(y.shape(), 0.5, 1.5, 77);
  }();
  const ForwardFunction gradient = [&](const std::vector<Tensor>& in) {
    std::vector<Tensor> list = in;
    for (Tensor& x : list) {
      if (!x.requires_grad()) x = x.detach().requires_grad_();
    }
    return grad({function(list)}, {list[0]}, {.create_graph = true, .grad_outputs = {weights}})[0];
  };
  const BackwardFunction twice = [&](const Tensor& g, const std::vector<Tensor>& in) {
    const std::vector<Tensor> list = leaves(in);
    const Tensor y = gradient(list);
    std::vector<Tensor> found(list.size());
    if (y.requires_grad()) found = grad({y}, list, {.allow_unused = true, .grad_outputs = {g}});
    for (std::size_t k = 0; k < list.size(); ++k) {
      if (!found[k].defined()) found[k] = zeros_like(list[k]);
    }
    return found;
  };
  const GradcheckResult next = gradcheck(gradient, twice, inputs, {.tolerance = 1e-5});
  EXPECT_TRUE(next.passed) << what << ", second order: " << next.message;
}

}  // namespace extensor
