// 1 × 1 filters: plain matrix products, one per image and group.
#include <memory>

#include "backend/cpu/convolution/routes.h"
#include "backend/cpu/gemm/gemm.h"

namespace extensor::cpu::conv {

namespace {

constexpr std::int64_t most_partials = 4 * 1024 * 1024;  // elements of the gradients per image

// Offsets of operands of `groups` products, `step` elements apart, the same for every image.
backend::BatchOffsets per_group(std::int64_t groups, std::int64_t step) {
  backend::BatchOffsets offsets(0);
  offsets.levels = 2;
  offsets.sizes[1] = groups;
  offsets.strides[1] = step;
  return offsets;
}

}  // namespace

// A single channel is a scaled copy, for which the direct algorithm is faster.
bool pointwise_suits(const Shape& shape) {
  return shape.taps() == 1 && shape.in_channels > 1 && shape.stride_height == 1 &&
         shape.stride_width == 1 && shape.padding_height == 0 && shape.padding_width == 0 &&
         shape.in_height == shape.out_height && shape.in_width == shape.out_width;
}

bool pointwise_suits_weights(const Shape& shape) {
  return pointwise_suits(shape) &&
         shape.batch * shape.groups * shape.out_channels * shape.in_channels <= most_partials;
}

template <class T>
void pointwise_forward(const Shape& shape, const T* x, const Filters<T>& filters, const T* bias,
                       T* y) {
  const std::int64_t ins = shape.in_channels, outs = shape.out_channels;
  const std::int64_t pixels = shape.out_pixels(), products = shape.batch * shape.groups;
  const auto a = per_group(shape.groups, outs * ins);
  const backend::BatchOffsets b(ins * pixels), c(outs * pixels);
  gemm_batched({.dtype = dtype_of<T>,
                .m = outs,
                .n = pixels,
                .k = ins,
                .a = {filters.data, filters.out_stride, filters.in_stride},
                .b = {x, pixels, 1},
                .c = y,
                .c_row_stride = pixels},
               products, a, b, c);
  if (bias == nullptr) return;
  const std::int64_t channels = shape.groups * outs;
  detail::parallel_for(shape.batch * channels, divide_up(32 * 1024, pixels),
                       [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t plane = begin; plane < end; ++plane) {
                           const T offset = bias[plane % channels];
                           for (T* to = y + plane * pixels; to < y + (plane + 1) * pixels; ++to) {
                             *to += offset;
                           }
                         }
                       });
}

template <class T>
void pointwise_weight_gradient(const Shape& shape, const T* x, const T* y, T* weight) {
  const std::int64_t ins = shape.in_channels, outs = shape.out_channels;
  const std::int64_t pixels = shape.out_pixels(), products = shape.batch * shape.groups;
  const std::int64_t numel = shape.groups * outs * ins;
  const backend::BatchOffsets a(outs * pixels), b(ins * pixels), c(outs * ins);
  const std::unique_ptr<T[]> partial(new T[static_cast<std::size_t>(shape.batch * numel)]);
  gemm_batched({.dtype = dtype_of<T>,
                .m = outs,
                .n = ins,
                .k = pixels,
                .a = {y, pixels, 1},
                .b = {x, 1, pixels},
                .c = partial.get(),
                .c_row_stride = ins},
               products, a, b, c);
  detail::parallel_for(numel, 4096, [&](std::int64_t begin, std::int64_t end) {
    std::fill(weight + begin, weight + end, T(0));
    for (std::int64_t n = 0; n < shape.batch; ++n) {
      const T* from = partial.get() + n * numel;
      for (std::int64_t i = begin; i < end; ++i) weight[i] += from[i];
    }
  });
}

#define EXTENSOR_INSTANTIATE(T)                                                             \
  template void pointwise_forward(const Shape&, const T*, const Filters<T>&, const T*, T*); \
  template void pointwise_weight_gradient(const Shape&, const T*, const T*, T*);
EXTENSOR_INSTANTIATE(float)
EXTENSOR_INSTANTIATE(double)
#undef EXTENSOR_INSTANTIATE

}  // namespace extensor::cpu::conv
