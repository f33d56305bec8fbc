// The rows of the op tables on floats as device functions, and the comparisons on plain numbers.
// Compiled by nvcc, and by NVRTC for formulas.
#pragma once

#include <limits>
#include <type_traits>

#include "backend/cpu/simd/lanes-inl.h"
#include "backend/cuda/device_words.cuh"
#include "backend/elementwise_op.h"

namespace extensor::cpu::N_CUDA {

using backend::ElementwiseOp;
using backend::Parameter;

#define EXTENSOR_WORD __device__ __forceinline__
#include "backend/row_expressions.h"
EXTENSOR_EXPRESSION(fma_row, EXTENSOR_THREE(a, b, c), , FusedMulAdd(typename V::D(), a.v, b.v, c.v))

// Comparisons and predicates on plain numbers.
template <class T>
EXTENSOR_WORD bool is_infinite(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return x == std::numeric_limits<T>::infinity() || x == -std::numeric_limits<T>::infinity();
  } else {
    return false;
  }
}
template <class T>
EXTENSOR_WORD bool is_finite(T x) {
  return x == x && !is_infinite(x);
}
#define COMPARE(name, expression)               \
  struct name##_test {                          \
    template <class T>                          \
    static EXTENSOR_WORD bool apply(T a, T b) { \
      return expression;                        \
    }                                           \
  };
#define PREDICATE(name, expression)        \
  struct name##_test {                     \
    template <class T>                     \
    static EXTENSOR_WORD bool apply(T x) { \
      return expression;                   \
    }                                      \
  };
#include "extensor/tables/logical.def"

}  // namespace extensor::cpu::N_CUDA
