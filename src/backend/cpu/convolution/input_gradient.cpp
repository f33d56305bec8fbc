// The gradient of x: a convolution if the stride is 1, else a sum of patches.
#include <algorithm>
#include <cstdint>

#include "backend/cpu/convolution/direct_kernels.h"
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
  const std::int64_t taps = shape.taps(), channels = shape.groups * shape.in_channels;
  detail::parallel_for(
      channels, divide_up(4 * 1024, std::max<std::int64_t>(1, shape.out_channels * taps)),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t channel = begin; channel < end; ++channel) {
          const std::int64_t g = channel / shape.in_channels, c = channel % shape.in_channels;
          T* turned = to + channel * shape.out_channels * taps;
          for (std::int64_t o = 0; o < shape.out_channels; ++o, turned += taps) {
            const T* filter =
                weight + ((g * shape.out_channels + o) * shape.in_channels + c) * taps;
            for (std::int64_t t = 0; t < taps; ++t) turned[t] = filter[taps - 1 - t];
          }
        }
      });
}

namespace {

constexpr std::int64_t elements_of_block = 64 * 1024;  // columns that stay in cache

// The taps of one row of a filter that are added together, because their elements alternate in x.
std::int64_t taps_together(const Shape& shape, std::int64_t first) {
  const std::int64_t step = shape.stride_width;
  const bool alternate = shape.dilation_width == 1 && step <= most_interleaved;
  return alternate && first + step <= shape.kernel_width ? step : 1;
}

// x += the columns [taps of `channels` channels][pixels of rows first …], each at its source
// position.
template <class T>
void add_patches(const Shape& shape, const T* columns, std::int64_t channels,
                 std::int64_t first_row, std::int64_t row_count, T* x) {
  const auto add_interleaved = direct_kernels<T>().add_interleaved;
  const std::int64_t pixels = row_count * shape.out_width, step = shape.stride_width;
  // One row of y, of `together` taps: x[to + j · step + k] += from[k][j].
  const auto add_row = [&](const T* from, std::int64_t together, std::int64_t shift, T* row) {
    // The positions whose elements are all inside, and those around them that some taps have.
    const Span all{
        positions_inside(shape.out_width, step, shift, shape.in_width).begin,
        positions_inside(shape.out_width, step, shift + together - 1, shape.in_width).end};
    const auto add_single = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = 0; k < together; ++k) {
        const Span inside = positions_inside(shape.out_width, step, shift + k, shape.in_width);
        for (std::int64_t j = std::max(begin, inside.begin); j < std::min(end, inside.end); ++j) {
          row[shift + k + j * step] += from[k * pixels + j];
        }
      }
    };
    if (together != step || all.begin >= all.end) return add_single(0, shape.out_width);
    add_single(0, all.begin);
    add_interleaved(from + all.begin, pixels, together, row + (shift + all.begin * step),
                    all.end - all.begin);
    add_single(all.end, shape.out_width);
  };
  for (std::int64_t line = 0; line < channels * shape.kernel_height; ++line) {
    const std::int64_t channel = line / shape.kernel_height;
    const std::int64_t row_shift =
        line % shape.kernel_height * shape.dilation_height - shape.padding_height;
    for (std::int64_t tap = 0; tap < shape.kernel_width;) {
      const std::int64_t together = taps_together(shape, tap);
      const std::int64_t shift = tap * shape.dilation_width - shape.padding_width;
      const T* from = columns + (line * shape.kernel_width + tap) * pixels;
      for (std::int64_t i = 0; i < row_count; ++i) {
        const std::int64_t row = (first_row + i) * shape.stride_height + row_shift;
        if (row < 0 || row >= shape.in_height) continue;
        add_row(from + i * shape.out_width, together, shift,
                x + (channel * shape.in_height + row) * shape.in_width);
      }
      tap += together;
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
