// Optimizer steps on dense float or double, everything about an element in one pass.
#pragma once

#include <cstddef>

#include "backend/optimizer_call.h"

namespace extensor::cpu {

template <class T>
using StepKernel = void (*)(T* param, const T* grad, T* const* states, std::size_t n,
                            const backend::OptimizerCoefficients& coefficients);

template <class T>
struct OptimizerKernels {
  StepKernel<T> sgd, adam, rmsprop, adagrad, lion, average;
  // Over the elements of one block.
  double (*sum_of_magnitudes)(const T* x, std::size_t n);
  double (*sum_of_squares)(const T* x, std::size_t n);
  double (*largest_magnitude)(const T* x, std::size_t n);
};

template <class T>
const OptimizerKernels<T>& optimizer_kernels();

}  // namespace extensor::cpu
