// Activations as device functions, in float and double.
#pragma once

#include "extensor/activation.h"

namespace extensor::backend::cuda {

// The exponential of a number that is not positive: neither branch overflows.
template <class C>
__device__ __forceinline__ C sigmoid_of(C x) {
  const C e = exp(-fabs(x));
  const C inverse = C(1) / (C(1) + e);
  return x < C(0) ? e * inverse : inverse;  // NaN takes the second branch and stays NaN
}

template <class C>
__device__ __forceinline__ C relu_of(C x) {
  return x < C(0) ? C(0) : x;  // not max: NaN stays NaN
}

// x · Φ(x), exact.
template <class C>
__device__ __forceinline__ C gelu_of(C x) {
  if (x < C(-40)) return C(-0.0);  // −∞ · 0 would be NaN
  return x * normcdf(x);
}

// x · (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2, as x · sigmoid(2 …).
template <class C>
__device__ __forceinline__ C gelu_tanh_of(C x) {
  if (x < C(-40)) return C(-0.0);
  const C twice = C(1.5957691216057307117597842397375);  // 2 √(2/π)
  return x * sigmoid_of(twice * x * (C(1) + C(0.044715) * x * x));
}

template <class C>
__device__ __forceinline__ C silu_of(C x) {
  if (x < C(-800)) return C(-0.0);
  return x * sigmoid_of(x);
}

template <class C>
__device__ __forceinline__ C activate(Activation activation, C x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return relu_of(x);
    case Activation::sigmoid:
      return sigmoid_of(x);
    case Activation::tanh:
      return tanh(x);
    case Activation::gelu:
      return gelu_of(x);
    case Activation::silu:
      return silu_of(x);
    case Activation::gelu_tanh:
      return gelu_tanh_of(x);
  }
  return x;
}

}  // namespace extensor::backend::cuda
