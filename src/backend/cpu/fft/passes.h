// One pass of a Stockham transform over interleaved complex numbers, for every SIMD target.
//
// A pass computes, for every group g, leg k and column q,
//   out[g * out_group + k * out_leg + q] =
//       w(g, k) * sum over j of in[g * in_group + j * in_leg + q] * root(radix)^(jk).
// Columns are adjacent, so vectors lie along them, and the output of a pass has radix times as many
// columns as its input. The first pass of a single row has one column: row_pass takes its vectors
// along the groups and transposes them.
#pragma once

#include <cstddef>

namespace extensor::cpu {

// The largest prime that has a pass of its own; longer prime factors are transformed by Bluestein's
// algorithm.
inline constexpr std::size_t largest_fft_radix = 31;

// Strides are in complex numbers.
template <class T>
struct FftPass {
  const T* in;
  T* out;  // must not overlap `in`
  std::size_t radix;
  std::size_t groups;
  std::size_t columns;
  std::size_t in_group, in_leg;
  std::size_t out_group, out_leg;
  // w(g, k) at [g][k - 1], with positive angles. Null in the last pass, where w is `scale`.
  const T* twiddles;
  T scale;
  T sign;          // of the exponent: -1 forward, 1 inverse
  const T* roots;  // cos and sin of 2πk/radix for k < radix; read by odd radices above 5
};

template <class T>
struct FftKernels {
  void (*pass)(const FftPass<T>&);

  // The first pass of a row for radix 4, with one column and out_group = 4, out_leg = 1. `twiddles`
  // is [k - 1][g]. False where the groups do not fill a vector: nothing is written.
  bool (*row_pass)(const FftPass<T>&);

  // out[i] = a[i] * b[i], or a[i] * conj(b[i]), for `count` complex numbers. `out` may be `a`.
  void (*multiply)(const T* a, const T* b, bool conjugate, T* out, std::size_t count);

  // out[c * out_stride + r] = in[r * columns + c] * base[r] * step[r * step_stride + c], with the
  // factors conjugated for sign -1.
  void (*twist)(const T* in, std::size_t rows, std::size_t columns, const T* base, const T* step,
                std::size_t step_stride, T sign, T* out, std::size_t out_stride);
};

template <class T>
const FftKernels<T>& fft_kernels();

}  // namespace extensor::cpu
