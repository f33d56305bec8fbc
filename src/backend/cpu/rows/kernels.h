// Row kernels on one dense row of float or double: the softmax family, each in as few passes as its
// formula allows.
#pragma once

#include <cstddef>

namespace extensor::cpu {

template <class T>
struct RowKernels {
  // out may be x.
  void (*softmax)(const T* x, T* out, std::size_t n);
  void (*log_softmax)(const T* x, T* out, std::size_t n);
  T (*logsumexp)(const T* x, std::size_t n);
  // out may be g or y.
  void (*softmax_backward)(const T* g, const T* y, T* out, std::size_t n);
  void (*log_softmax_backward)(const T* g, const T* y, T* out, std::size_t n);
};

template <class T>
const RowKernels<T>& row_kernels();

}  // namespace extensor::cpu
