// Kernels that read patches of an image with explicit padding: vectors run along its rows, each tap
// is a shifted read. They convolve without a matrix product if there are few filters, else copy
// patches.
#pragma once

#include <cstdint>

namespace extensor::cpu::conv {

// Rows of y from an image with explicit padding. Element (i, j) of y uses image[i · row_step + j +
// offsets[p]] for element p of the patch; whole vectors are read.
template <class T>
struct DirectForward {
  const T* image;
  std::int64_t row_step;
  const std::int64_t* offsets;
  std::int64_t patch, kernel_height, kernel_width;
  std::int64_t tap_row_step;  // between the rows of taps of a channel
  const T* weight;            // [channels, patch]
  const T* bias;              // [channels], or null
  std::int64_t channels, rows, columns;
  T* y;  // rows are `columns` apart
  std::int64_t channel_stride;
};

// sums[channel][p][lane] += the contribution of each lane's pixels to the gradient of a weight.
template <class T>
struct DirectWeightGradient {
  const T* image;
  std::int64_t row_step;
  const std::int64_t* offsets;
  std::int64_t patch;
  const T* y;
  std::int64_t channels, rows, columns, channel_stride;
  T* sums;
};

// Rows of an image copied with explicit padding: to[(i · phase_count + p) · phase_size + q] is
// from[i · from_step + phases[p].from + (q − phases[p].before) · stride] for `count` elements from
// q = phases[p].before on, else 0.
struct RowPhase {
  std::int64_t from, before, count;
};
template <class T>
struct PaddedRows {
  const T* from;
  std::int64_t from_step, rows, stride;
  const RowPhase* phases;
  std::int64_t phase_count, phase_size;
  T* to;
};

// A run of `length` consecutive elements to copy from `from` to `to`.
struct Segment {
  std::int64_t from, to, length;
};

inline constexpr std::int64_t most_interleaved = 4;

// Planes interleaved by columns: to[i · to_step + j] = from[j % phases · phase_stride + i · width +
// j / phases], for j < to_width.
template <class T>
struct Interleaved {
  const T* from;
  std::int64_t phase_stride, phases, rows, width;
  T* to;
  std::int64_t to_step, to_width;
};

template <class T>
struct DirectKernels {
  std::int64_t lanes;
  void (*forward)(const DirectForward<T>&);
  void (*weight_gradient)(const DirectWeightGradient<T>&);
  // Writes up to a vector past the end of the last row.
  void (*copy_rows)(const PaddedRows<T>&);
  // Row p of `rows` receives the segments, ascending, of the image starting at offsets[p]. Writes
  // whole vectors, also past the end of the last row.
  void (*copy_segments)(const T* image, const std::int64_t* offsets, std::int64_t count,
                        const Segment* first, const Segment* last, std::int64_t row_stride,
                        T* rows);
  // out[i] = start[i] + Σ_k x[k][i] · weight[k][i]; a null start counts as 0.
  void (*weighted_sum)(const T* const* x, const T* const* weight, std::int64_t count,
                       const T* start, T* out, std::int64_t n);
  // sums[i] += x[i] · y[i]
  void (*add_products)(const T* x, const T* y, T* sums, std::int64_t n);
  // sums[k · i + j] += rows[j][i], for the k = 1 to most_interleaved rows that are row_stride
  // apart.
  void (*add_interleaved)(const T* rows, std::int64_t row_stride, std::int64_t k, T* sums,
                          std::int64_t n);
  // Reads up to a vector past the end of each plane.
  void (*interleave)(const Interleaved<T>&);
};

template <class T>
const DirectKernels<T>& direct_kernels();

}  // namespace extensor::cpu::conv
