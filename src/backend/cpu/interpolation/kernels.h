// Kernels for weighted sums of elements, in float or double.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace extensor::cpu {

// An index as wide as T, so that both fit one vector.
template <class T>
using TapIndex = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;

// The sums of a row, Σ weights · x[index] for `slots` terms, for vectors of `lanes` sums. Vector v
// has the sums from first_sum(v) on. A term of a vector reads a window, `lanes` or 2 · `lanes`
// adjacent elements of x, and picks its elements from there.
template <class T>
struct TapWindows {
  std::size_t lanes, slots, sums;
  bool wide;                   // windows of 2 · lanes elements
  const TapIndex<T>* starts;   // [vectors, slots]; −1: the indices are positions in x
  const TapIndex<T>* indices;  // [vectors, slots, lanes], positions in the window
  const T* weights;            // [vectors, slots, lanes]; elements whose weight is 0 are not used

  std::size_t vectors() const { return (sums + lanes - 1) / lanes; }
  // The last vector is moved back so that it ends with the row, and computes some sums twice.
  std::size_t first_sum(std::size_t vector) const {
    return sums < lanes ? 0 : std::min(vector * lanes, sums - lanes);
  }
};

template <class T>
struct InterpolationKernels {
  std::size_t lanes;
  // out[i] = Σ weights[k] · rows[k][i] for k < count; 0 for no rows.
  void (*weigh_rows)(const T* const* rows, const T* weights, std::size_t count, T* out,
                     std::size_t n);
  // A row of sums. x has at least a window, and out a vector.
  void (*weigh_windows)(const T* x, const TapWindows<T>& windows, T* out);
  // The same for one slot whose weights are 1.
  void (*take_windows)(const T* x, const TapWindows<T>& windows, T* out);
};

template <class T>
const InterpolationKernels<T>& interpolation_kernels();

}  // namespace extensor::cpu
