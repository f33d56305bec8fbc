// The gradient of x: a convolution if the stride is 1, else a sum of patches.
#include <algorithm>
#include <cstdint>

#include "backend/cpu/convolution/patches.h"
#include "backend/cpu/convolution/routes.h"
#include "backend/cpu/gemm/kernels.h"

namespace extensor::cpu::conv {

Shape turned(const Shape& shape) {
  Shape result = shape;
  std::swap(result.in_channels, result.out_channels);
  std::swap(result.in_height, result.out_height);
  std::swap(result.in_width, result.out_width);
  result.padding_height = shape.dilation_height * (shape.kernel_height - 1) - shape.padding_height;
  result.padding_width = shape.dilation_width * (shape.kernel_width - 1) - shape.padding_width;
  return result;
}

template <class T>
void turn_filters(const Shape& shape, const T* weight, T* to) {
  const std::int64_t taps = shape.taps();
  for (std::int64_t g = 0; g < shape.groups; ++g) {
    for (std::int64_t o = 0; o < shape.out_channels; ++o) {
      for (std::int64_t c = 0; c < shape.in_channels; ++c) {
        const T* filter = weight + ((g * shape.out_channels + o) * shape.in_channels + c) * taps;
        T* turned = to + ((g * shape.in_channels + c) * shape.out_channels + o) * taps;
        for (std::int64_t t = 0; t < taps; ++t) turned[t] = filter[taps - 1 - t];
      }
    }
  }
}

namespace {

constexpr std::int64_t elements_of_block = 64 * 1024;  // columns that stay in cache

// x += the columns [taps of `channels` channels][pixels of rows first …], each at its source
// position.
template <class T>
void add_patches(const Shape& shape, const T* columns, std::int64_t channels,
                 std::int64_t first_row, std::int64_t row_count, T* x) {
  Tap tap(shape, 0);
  const std::int64_t pixels = row_count * shape.out_width;
  for (std::int64_t p = 0; p < channels * shape.taps(); ++p, tap.advance(shape)) {
    const std::int64_t row_shift = tap.row * shape.dilation_height - shape.padding_height;
    const std::int64_t column_shift = tap.column * shape.dilation_width - shape.padding_width;
    const Span inside =
        positions_inside(shape.out_width, shape.stride_width, column_shift, shape.in_width);
    for (std::int64_t i = 0; i < row_count; ++i) {
      const std::int64_t row = (first_row + i) * shape.stride_height + row_shift;
      if (row < 0 || row >= shape.in_height) continue;
      const std::int64_t to = (tap.channel * shape.in_height + row) * shape.in_width + column_shift;
      const T* from = columns + p * pixels + i * shape.out_width;
      for (std::int64_t j = inside.begin; j < inside.end; ++j) {
        x[to + j * shape.stride_width] += from[j];
      }
    }
  }
}

}  // namespace

// For strides beyond 1: the contribution of each pixel of y to its patch is computed block by block
// and added in place. A unit owns channels of one image, so no other thread adds there.
template <class T>
void scatter_input_gradient(const Shape& shape, const T* weight, const T* y, const T* bias, T* x) {
  const Kernels<T>& kernel = kernels<T>();
  const std::int64_t taps = shape.taps(), pixels = shape.out_pixels();
  const std::int64_t row_step = std::clamp<std::int64_t>(
      elements_of_block / std::max<std::int64_t>(1, taps * shape.out_width), 1, shape.out_height);
  const std::int64_t channel_step =
      std::clamp<std::int64_t>(elements_of_block / (taps * row_step * shape.out_width), 1,
                               std::min<std::int64_t>(shape.in_channels, 64));
  const std::int64_t channel_blocks = divide_up(shape.in_channels, channel_step);
  const int threads = threads_of(shape);
  Buffers<T> buffers;
  const std::int64_t size = channel_step * taps * row_step * shape.out_width;
  buffers.add(size, threads);
  T* memory = buffers.reserve();
  const auto run_unit = [&](std::int64_t unit, std::int64_t thread) {
    const std::int64_t image = unit / channel_blocks, group = image % shape.groups;
    const std::int64_t channel = unit % channel_blocks * channel_step;
    const std::int64_t channels = std::min(channel_step, shape.in_channels - channel);
    T* to = x + (image * shape.in_channels + channel) * shape.in_pixels();
    T* columns = memory + thread * buffers.stride(size);
    for (std::int64_t c = 0; c < channels; ++c) {
      std::fill(to + c * shape.in_pixels(), to + (c + 1) * shape.in_pixels(),
                bias != nullptr ? bias[group * shape.in_channels + channel + c] : T(0));
    }
    for (std::int64_t i = 0; i < shape.out_height; i += row_step) {
      const std::int64_t row_count = std::min(row_step, shape.out_height - i);
      Block<T> block;
      block.m = channels * taps;
      block.n = row_count * shape.out_width;
      block.k = shape.out_channels;
      block.a = weight + group * shape.out_channels * shape.patch() + channel * taps;
      block.panel_rows = divide_up(block.m, divide_up(block.m, kernel.tile_rows));
      block.a_row_stride = 1;
      block.a_k_stride = shape.patch();
      block.a_panel_stride = block.panel_rows;
      block.b = y + image * shape.out_channels * pixels + i * shape.out_width;
      block.b_k_stride = pixels;
      block.b_panel_stride = kernel.tile_columns;
      block.sums = columns;
      block.sums_row_stride = block.n;
      block.transposed = block.accumulate = false;
      block.finish = nullptr;
      kernel.block(block);
      add_patches(shape, columns, channels, i, row_count, to);
    }
  };
  run_units(threads, shape.batch * shape.groups * channel_blocks, run_unit);
}

#define EXTENSOR_INSTANTIATE(T)                           \
  template void turn_filters(const Shape&, const T*, T*); \
  template void scatter_input_gradient(const Shape&, const T*, const T*, const T*, T*);
EXTENSOR_INSTANTIATE(float)
EXTENSOR_INSTANTIATE(double)
#undef EXTENSOR_INSTANTIATE

}  // namespace extensor::cpu::conv
