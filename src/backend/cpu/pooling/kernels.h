// Kernels for rows of pooled planes, in float or double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace extensor::cpu {

// The number of a tap, as wide as T, so that both fit one vector.
template <class T>
using TapNumber = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;

template <class T>
struct PoolingKernels {
  // line[i] = the larger of line[i] and row[i]; NaN is larger than everything.
  void (*take_larger)(const T* row, T* line, std::size_t n);
  // n adjacent windows of 2 × 2, from two rows of 2n.
  void (*largest_of_pairs)(const T* top, const T* bottom, T* out, std::size_t n);
  // Assigns the gradient g of each such window to its first largest element, 0 to the others.
  void (*spread_over_pairs)(const T* top, const T* bottom, const T* g, T* top_gradient,
                            T* bottom_gradient, std::size_t n);
  // Like take_larger, and records the tap of each largest element.
  void (*track_larger)(const T* row, T* line, TapNumber<T>* winner, TapNumber<T> tap,
                       std::size_t n);
  // out[j] = the largest of line[j · stride + k · step] for k below `taps`.
  void (*largest_of_windows)(const T* line, T* out, std::size_t n, std::size_t stride,
                             std::size_t taps, std::size_t step);
  // Like track_larger, with row[j · stride] in place of row[j].
  void (*track_windows)(const T* row, T* line, TapNumber<T>* winner, TapNumber<T> tap,
                        std::size_t n, std::size_t stride);
  // out[2j] += g[j] where the winner is `tap`, out[2j + 1] += g[j] where it is tap + 1.
  void (*add_to_pairs)(const TapNumber<T>* winner, TapNumber<T> tap, const T* g, T* out,
                       std::size_t n);
  // out[i] += g[i] where the winner is that tap.
  void (*add_to_winner)(const TapNumber<T>* winner, TapNumber<T> tap, const T* g, T* out,
                        std::size_t n);
};

template <class T>
const PoolingKernels<T>& pooling_kernels();

}  // namespace extensor::cpu
