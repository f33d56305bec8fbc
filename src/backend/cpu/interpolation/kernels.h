// Kernels for weighted sums of elements, in float or double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace extensor::cpu {

// An index as wide as T, so that both fit one vector.
template <class T>
using TapIndex = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;

template <class T>
struct InterpolationKernels {
  // out[i] = Σ weights[k] · rows[k][i] for k < count; 0 for no rows.
  void (*weigh_rows)(const T* const* rows, const T* weights, std::size_t count, T* out,
                     std::size_t n);
  // out[i] = Σ weights[k · n + i] · x[index[k · n + i]] for k < count; elements whose weight is 0
  // are not used.
  void (*weigh_elements)(const T* x, const TapIndex<T>* index, const T* weights, std::size_t count,
                         T* out, std::size_t n);
  // out[i] = x[index[i]].
  void (*take_elements)(const T* x, const TapIndex<T>* index, T* out, std::size_t n);
};

template <class T>
const InterpolationKernels<T>& interpolation_kernels();

}  // namespace extensor::cpu
