// Optimizer steps on dense float or double: one pass over the elements.
#pragma once

#include <cstddef>

#include "backend/optimizer_rows.h"

namespace extensor::cpu {

// n is a multiple of OptimizerKernels::lanes.
template <class T>
using StepKernel = void (*)(T* param, const T* grad, T* const* states, std::size_t n,
                            const backend::OptimizerCoefficients& coefficients);

inline constexpr int max_optimizer_variants = 16;  // combinations of a row's VARIANTs

template <class T>
struct OptimizerKernels {
  std::size_t lanes;  // a power of two, at most 64 bytes
  // Indexed by op and by the bits of its variants.
  StepKernel<T> steps[static_cast<int>(backend::OptimizerOp::scale) + 1][max_optimizer_variants];
  // Over the elements of one block.
  double (*sum_of_magnitudes)(const T* x, std::size_t n);
  double (*sum_of_squares)(const T* x, std::size_t n);
  double (*largest_magnitude)(const T* x, std::size_t n);
};

template <class T>
const OptimizerKernels<T>& optimizer_kernels();

}  // namespace extensor::cpu
