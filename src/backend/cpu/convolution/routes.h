// The algorithms for a convolution; convolution.cpp chooses among them. All write their whole
// result, and its bits do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backend/convolution_call.h"
#include "backend/cpu/gemm/parallel.h"

namespace extensor::cpu::conv {

using Shape = backend::ConvolutionShape;

inline std::int64_t divide_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }
inline std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return divide_up(value, step) * step;
}
// The size of equal pieces of at most `most` (a multiple of `step`), itself a multiple of `step`.
inline std::int64_t even_piece(std::int64_t total, std::int64_t most, std::int64_t step) {
  return std::min(most, round_up(divide_up(total, divide_up(total, most)), step));
}

// The distance between matrices or rows that are read side by side: slightly more than their size,
// because otherwise they would share the same sets of the first-level cache.
template <class T>
std::int64_t spread(std::int64_t elements) {
  return elements + 128 / static_cast<std::int64_t>(sizeof(T));
}

// Multiply-adds of each of the three products.
inline double work_of(const Shape& shape) {
  return static_cast<double>(shape.batch) * static_cast<double>(shape.groups) *
         static_cast<double>(shape.out_channels) * static_cast<double>(shape.patch()) *
         static_cast<double>(shape.out_pixels());
}
constexpr double small_work = 64.0 * 1024;  // below this, one thread is faster

inline int threads_of(const Shape& shape) { return gemm_threads(work_of(shape), small_work); }

// Calls body(unit, slot) for every unit; concurrent calls have different slots below `threads`.
// Each thread starts with adjacent units.
template <class Body>
void run_units(int threads, std::int64_t units, const Body& body) {
  detail::parallel_for(threads, units, 1, [&](std::int64_t begin, std::int64_t end, int slot) {
    for (std::int64_t unit = begin; unit < end; ++unit) body(unit, slot);
  });
}

// Pieces of one allocation, each aligned to a cache line. Add all of them, then reserve.
template <class T>
class Buffers {
 public:
  // Adds `count` pieces of `elements` and returns where they start.
  std::int64_t add(std::int64_t elements, std::int64_t count = 1) {
    const std::int64_t start = total_;
    total_ += round_up(elements, piece_alignment) * count;
    return start;
  }
  static std::int64_t stride(std::int64_t elements) { return round_up(elements, piece_alignment); }
  T* reserve() const {
    return reinterpret_cast<T*>(Workspace::reserve(
        static_cast<std::size_t>(std::max<std::int64_t>(total_, 1)) * sizeof(T)));
  }

 private:
  static constexpr std::int64_t piece_alignment = 64 / static_cast<std::int64_t>(sizeof(T));
  std::int64_t total_ = 0;
};

// Filters in memory: the taps of filter (o, c) of a group start at data[o · out_stride + c ·
// in_stride], in reverse order if `turned`.
template <class T>
struct Filters {
  const T* data;
  std::int64_t out_stride, in_stride;
  bool turned;
};
template <class T>
Filters<T> filters_of(const Shape& shape, const T* weight) {
  return {weight, shape.patch(), shape.taps(), false};
}
// Those of turned(shape), in place.
template <class T>
Filters<T> turned_in_place(const Shape& shape, const T* weight) {
  return {weight, shape.taps(), shape.patch(), true};
}

// The transposed convolution: x's gradient is the convolution of y's with the filters rotated by
// 180° and input and output channels exchanged. For strides of 1.
Shape turned(const Shape& shape);
template <class T>
void turn_filters(const Shape& shape, const T* weight, T* to);

// Any stride: patches of the gradient of x are computed block by block and added in place.
template <class T>
void scatter_input_gradient(const Shape& shape, const T* weight, const T* y, const T* bias, T* x);

// Any stride: a convolution for each phase of x. For few channels of x the convolutions are small.
bool phases_suit(const Shape& shape);
template <class T>
void phased_input_gradient(const Shape& shape, const T* weight, const T* y, const T* bias, T* x);

// By the algorithm that suits the shape.
template <class T>
void forward(const Shape& shape, const T* x, const T* weight, const T* bias, T* y);

// Any shape: patches are packed block by block as an operand of the matrix product.
template <class T>
void gemm_forward(const Shape& shape, const T* x, const T* weight, const T* bias, T* y);
template <class T>
void gemm_weight_gradient(const Shape& shape, const T* x, const T* y, T* weight);

// One tap, stride 1, no padding: the image already is the matrix of patches.
bool pointwise_suits(const Shape& shape);
bool pointwise_suits_weights(const Shape& shape);
template <class T>
void pointwise_forward(const Shape& shape, const T* x, const Filters<T>& filters, const T* bias,
                       T* y);
template <class T>
void pointwise_weight_gradient(const Shape& shape, const T* x, const T* y, T* weight);

// Windows side by side: the image with its axes permuted is the matrix of patches.
bool patchwise_suits(const Shape& shape);
bool patchwise_suits_weights(const Shape& shape);
template <class T>
void patchwise_forward(const Shape& shape, const T* x, const T* weight, const T* bias, T* y);
template <class T>
void patchwise_weight_gradient(const Shape& shape, const T* x, const T* y, T* weight);
template <class T>
void patchwise_input_gradient(const Shape& shape, const T* weight, const T* y, const T* bias, T* x);

// Few filters: rows of the image are read in place, tap by tap.
bool direct_suits(const Shape& shape);
bool direct_suits_weights(const Shape& shape);
template <class T>
void direct_forward(const Shape& shape, const T* x, const T* weight, const T* bias, T* y);
template <class T>
void direct_weight_gradient(const Shape& shape, const T* x, const T* y, T* weight);

// 3 × 3 filters at stride 1 and many channels, with fewer products. A NaN or an infinity would
// spread to neighbouring elements: the functions return false if there is one, and the result must
// be computed by another algorithm.
bool winograd_suits(const Shape& shape);
bool winograd_suits_weights(const Shape& shape);
template <class T>
bool winograd_forward(const Shape& shape, const T* x, const Filters<T>& filters, const T* bias,
                      T* y);
template <class T>
bool winograd_weight_gradient(const Shape& shape, const T* x, const T* y, T* weight);

// 3 × 3 filters with dilation: Winograd's algorithm on the phases of x, with the same results.
bool dilated_suits(const Shape& shape);
template <class T>
bool dilated_forward(const Shape& shape, const T* x, const Filters<T>& filters, const T* bias,
                     T* y);

}  // namespace extensor::cpu::conv
