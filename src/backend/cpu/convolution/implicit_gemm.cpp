// Convolution as a matrix product whose second operand, the patches, only ever exists block by
// block, packed the way the tile kernel reads it.
#include <algorithm>
#include <cstdint>

#include "backend/cpu/convolution/patches.h"
#include "backend/cpu/convolution/routes.h"
#include "backend/cpu/gemm/kernels.h"

namespace extensor::cpu::conv {

namespace {

constexpr std::int64_t most_steps = 512;  // of the patch in one block
constexpr std::int64_t elements_of_block =
    64 * 1024;                          // patches that stay in the second-level cache
constexpr std::int64_t few_units = 32;  // as many as keep every thread busy

// The filters of every group as panels of rows, one block of the patch after the other.
template <class T>
struct PackedFilters {
  std::int64_t rows, patch, panel_rows, padded_rows, step, group_size;

  PackedFilters(std::int64_t rows, std::int64_t patch)
      : rows(rows),
        patch(patch),
        panel_rows(divide_up(rows, divide_up(rows, kernels<T>().tile_rows))),
        padded_rows(round_up(rows, panel_rows)),
        step(even_piece(patch, most_steps, 8)),
        group_size(padded_rows * patch) {}

  // Packing writes past the end.
  std::int64_t size(std::int64_t groups) const {
    return groups * group_size + 2 * kernels<T>().tile_columns;
  }
  // In order, for what one block spills is the next one's to write.
  void pack(const T* weight, std::int64_t groups, T* to) const {
    for (std::int64_t g = 0; g < groups; ++g) {
      for (std::int64_t p = 0; p < patch; p += step) {
        kernels<T>().pack(weight + g * rows * patch + p, patch, 1, rows, std::min(step, patch - p),
                          panel_rows, to + g * group_size + p * padded_rows);
      }
    }
  }
};

template <class T>
void fill_rows(T* rows, std::int64_t row_stride, std::int64_t count, std::int64_t columns,
               const T* values) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::fill(rows + i * row_stride, rows + i * row_stride + columns,
              values != nullptr ? values[i] : T(0));
  }
}

// Patch elements first_tap … of `count` pixels as panels of `width` columns.
template <class T>
void pack_patches(const Shape& shape, const T* x, std::int64_t first_tap, std::int64_t taps,
                  std::int64_t first_pixel, std::int64_t count, std::int64_t width, T* panels) {
  for (std::int64_t j = 0; j < count; j += width) {
    Tap tap(shape, first_tap);
    T* panel = panels + j * taps;
    const std::int64_t columns = std::min(width, count - j);
    for (std::int64_t p = 0; p < taps; ++p, tap.advance(shape)) {
      read_patch_row(shape, x, tap, first_pixel + j, columns, panel + p * width);
    }
  }
}

}  // namespace

template <class T>
void gemm_forward(const Shape& shape, const T* x, const T* weight, const T* bias, T* y) {
  const Kernels<T>& kernel = kernels<T>();
  const std::int64_t rows = shape.out_channels, pixels = shape.out_pixels();
  const std::int64_t width = kernel.tile_columns;
  const int threads = threads_of(shape);
  if (shape.patch() == 0) {
    for (std::int64_t plane = 0; plane < shape.batch * shape.groups * rows; ++plane) {
      std::fill(y + plane * pixels, y + (plane + 1) * pixels,
                bias != nullptr ? bias[plane % (shape.groups * rows)] : T(0));
    }
    return;
  }
  const PackedFilters<T> filters(rows, shape.patch());
  const std::int64_t most_columns =
      std::max(width, elements_of_block / filters.step / width * width);
  const std::int64_t column_step = even_piece(pixels, most_columns, width);
  const std::int64_t blocks = divide_up(pixels, column_step);

  Buffers<T> buffers;
  const std::int64_t filter_start = buffers.add(filters.size(shape.groups));
  const std::int64_t panel_size = column_step * filters.step + width;
  const std::int64_t panel_start = buffers.add(panel_size, threads);
  T* memory = buffers.reserve();
  T* packed = memory + filter_start;
  filters.pack(weight, shape.groups, packed);

  run_units(threads, shape.batch * shape.groups * blocks,
            [&](std::int64_t unit, std::int64_t thread) {
              const std::int64_t image = unit / blocks, group = image % shape.groups;
              const std::int64_t first = unit % blocks * column_step;
              const std::int64_t count = std::min(column_step, pixels - first);
              const T* from = x + image * shape.in_channels * shape.in_pixels();
              T* panels = memory + panel_start + thread * buffers.stride(panel_size);
              T* to = y + image * rows * pixels + first;
              if (bias != nullptr) fill_rows(to, pixels, rows, count, bias + group * rows);
              for (std::int64_t p = 0; p < filters.patch; p += filters.step) {
                const std::int64_t steps = std::min(filters.step, filters.patch - p);
                pack_patches(shape, from, p, steps, first, count, width, panels);
                Block<T> block;
                block.m = rows;
                block.n = count;
                block.k = steps;
                block.a = packed + group * filters.group_size + p * filters.padded_rows;
                block.a_row_stride = 1;
                block.a_k_stride = filters.panel_rows;
                block.a_panel_stride = filters.panel_rows * steps;
                block.panel_rows = filters.panel_rows;
                block.b = panels;
                block.b_k_stride = width;
                block.b_panel_stride = width * steps;
                block.sums = to;
                block.sums_row_stride = pixels;
                block.transposed = false;
                block.accumulate = p > 0 || bias != nullptr;
                block.finish = nullptr;
                kernel.block(block);
              }
            });
}

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

// x += the columns [taps of `channels` channels][pixels of rows first …], each where it came from.
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
      for (std::int64_t j = inside.begin; j < inside.end; ++j)
        x[to + j * shape.stride_width] += from[j];
    }
  }
}

// Strides beyond 1: what each pixel of y gives to its patch is computed block by block and added
// where the patch lies. A unit owns channels of one image, so nobody else adds there.
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
  run_units(threads, shape.batch * shape.groups * channel_blocks,
            [&](std::int64_t unit, std::int64_t thread) {
              const std::int64_t image = unit / channel_blocks, group = image % shape.groups;
              const std::int64_t channel = unit % channel_blocks * channel_step;
              const std::int64_t channels = std::min(channel_step, shape.in_channels - channel);
              T* to = x + (image * shape.in_channels + channel) * shape.in_pixels();
              T* columns = memory + thread * buffers.stride(size);
              fill_rows(to, shape.in_pixels(), channels, shape.in_pixels(),
                        bias != nullptr ? bias + group * shape.in_channels + channel : nullptr);
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
            });
}

}  // namespace

template <class T>
void gemm_input_gradient(const Shape& shape, const T* weight, const T* y, const T* bias, T* x) {
  scatter_input_gradient(shape, weight, y, bias, x);
}

template <class T>
void gemm_weight_gradient(const Shape& shape, const T* x, const T* y, T* weight) {
  const Kernels<T>& kernel = kernels<T>();
  constexpr std::int64_t pixel_step = 256;
  const std::int64_t width = kernel.tile_columns, rows = shape.out_channels;
  const std::int64_t patch = shape.patch(), pixels = shape.out_pixels();
  const std::int64_t column_step = even_piece(patch, 8 * width, width);
  const std::int64_t column_blocks = divide_up(patch, column_step);
  // Runs of images with sums of their own, added up in the end.
  const std::int64_t runs = std::clamp<std::int64_t>(few_units / (column_blocks * shape.groups), 1,
                                                     std::max<std::int64_t>(1, shape.batch));
  const std::int64_t numel = shape.groups * rows * patch;
  const std::int64_t panel_rows = divide_up(rows, divide_up(rows, kernel.tile_rows));
  const int threads = threads_of(shape);

  Buffers<T> buffers;
  const std::int64_t stage_size = width * pixel_step;
  const std::int64_t panel_size = column_step * pixel_step + 2 * width;
  const std::int64_t sums_start = buffers.add(runs > 1 ? numel * runs : 0);
  const std::int64_t stage_start = buffers.add(stage_size, threads);
  const std::int64_t panel_start = buffers.add(panel_size, threads);
  T* memory = buffers.reserve();
  T* sums = runs > 1 ? memory + sums_start : weight;

  run_units(
      threads, runs * shape.groups * column_blocks, [&](std::int64_t unit, std::int64_t thread) {
        const std::int64_t run = unit / (shape.groups * column_blocks);
        const std::int64_t group = unit / column_blocks % shape.groups;
        const std::int64_t column = unit % column_blocks * column_step;
        const std::int64_t columns = std::min(column_step, patch - column);
        T* stage = memory + stage_start + thread * buffers.stride(stage_size);
        T* panels = memory + panel_start + thread * buffers.stride(panel_size);
        T* to = sums + run * numel + group * rows * patch + column;
        const std::int64_t first_image = shape.batch * run / runs;
        const std::int64_t end_image = shape.batch * (run + 1) / runs;
        if (first_image == end_image || pixels == 0)
          fill_rows<T>(to, patch, rows, columns, nullptr);
        for (std::int64_t n = first_image; n < end_image; ++n) {
          const T* from = x + (n * shape.groups + group) * shape.in_channels * shape.in_pixels();
          const T* gradient = y + (n * shape.groups + group) * rows * pixels;
          for (std::int64_t first = 0; first < pixels; first += pixel_step) {
            const std::int64_t count = std::min(pixel_step, pixels - first);
            Tap tap(shape, column);
            for (std::int64_t j = 0; j < columns; j += width) {
              const std::int64_t in_panel = std::min(width, columns - j);
              for (std::int64_t c = 0; c < in_panel; ++c, tap.advance(shape)) {
                read_patch_row(shape, from, tap, first, count, stage + c * pixel_step);
              }
              kernel.pack(stage, pixel_step, 1, in_panel, count, width, panels + j * count);
            }
            Block<T> block;
            block.m = rows;
            block.n = columns;
            block.k = count;
            block.a = gradient + first;
            block.a_row_stride = pixels;
            block.a_k_stride = 1;
            block.a_panel_stride = panel_rows * pixels;
            block.panel_rows = panel_rows;
            block.b = panels;
            block.b_k_stride = width;
            block.b_panel_stride = width * count;
            block.sums = to;
            block.sums_row_stride = patch;
            block.transposed = false;
            block.accumulate = n > first_image || first > 0;
            block.finish = nullptr;
            kernel.block(block);
          }
        }
      });
  if (runs == 1) return;
  parallel_for(numel, 16 * 1024, [&](std::int64_t begin, std::int64_t end) {
    std::copy(sums + begin, sums + end, weight + begin);
    for (std::int64_t run = 1; run < runs; ++run) {
      const T* from = sums + run * numel;
      for (std::int64_t i = begin; i < end; ++i) weight[i] += from[i];
    }
  });
}

#define EXTENSOR_INSTANTIATE(T)                                                      \
  template void turn_filters(const Shape&, const T*, T*);                            \
  template void gemm_forward(const Shape&, const T*, const T*, const T*, T*);        \
  template void gemm_input_gradient(const Shape&, const T*, const T*, const T*, T*); \
  template void gemm_weight_gradient(const Shape&, const T*, const T*, T*);
EXTENSOR_INSTANTIATE(float)
EXTENSOR_INSTANTIATE(double)
#undef EXTENSOR_INSTANTIATE

}  // namespace extensor::cpu::conv
