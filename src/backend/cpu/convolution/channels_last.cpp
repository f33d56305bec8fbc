// Convolutions of channels_last images. Patches are read in memory order: rows of taps, taps,
// channels. Filters, whose channels are outside their taps, are reordered first.
#include "backend/cpu/convolution/channels_last.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/gemm/kernels.h"

namespace extensor::cpu::conv::channels_last {

namespace {

constexpr std::int64_t most_steps = 512;                 // of the patch per block
constexpr std::int64_t elements_of_block = 64 * 1024;    // patches that stay in cache
constexpr std::int64_t few_units = 32;                   // enough to keep every thread busy
constexpr std::int64_t most_partials = 4 * 1024 * 1024;  // elements of sums over runs of images

std::size_t unsigned_of(std::int64_t n) { return static_cast<std::size_t>(n); }

// Reorders [filters, channels, taps] to [filters, taps, channels].
template <class T>
std::vector<T> filters_with_channels_last(const Shape& shape, const T* weight) {
  const std::int64_t filters = shape.groups * shape.out_channels, taps = shape.taps(),
                     channels = shape.in_channels;
  std::vector<T> moved(unsigned_of(filters * taps * channels));
  for (std::int64_t f = 0; f < filters; ++f) {
    const T* from = weight + f * shape.patch();
    T* to = moved.data() + f * shape.patch();
    for (std::int64_t t = 0; t < taps; ++t) {
      for (std::int64_t c = 0; c < channels; ++c) *to++ = from[c * taps + t];
    }
  }
  return moved;
}

template <class T>
void copy_or_clear(const T* from, std::int64_t count, T* to) {
  if (from == nullptr) {
    std::memset(to, 0, unsigned_of(count) * sizeof(T));
  } else {
    std::memcpy(to, from, unsigned_of(count) * sizeof(T));
  }
}

// Elements `first` … first + count − 1 of the patch of pixel (i, j) of y; `image` begins with the
// first channel of the group.
template <class T>
void read_patch(const Shape& shape, const T* image, std::int64_t i, std::int64_t j,
                std::int64_t first, std::int64_t count, T* to) {
  const std::int64_t channels = shape.in_channels, pixel = shape.groups * channels;
  const std::int64_t row_of_taps = shape.kernel_width * channels;
  const std::int64_t left = j * shape.stride_width - shape.padding_width;
  for (const std::int64_t last = first + count; first < last;) {
    const std::int64_t r = first / row_of_taps, begin = first % row_of_taps;
    const std::int64_t end = std::min(row_of_taps, begin + last - first);
    const std::int64_t row =
        i * shape.stride_height + r * shape.dilation_height - shape.padding_height;
    if (row < 0 || row >= shape.in_height) {
      copy_or_clear<T>(nullptr, end - begin, to);
    } else if (shape.groups == 1 && shape.dilation_width == 1) {
      // Neighbouring taps are neighbours in memory.
      const T* line = image + row * shape.in_width * pixel;
      const std::int64_t from = left * channels;
      const std::int64_t low = std::clamp(-from, begin, end);
      const std::int64_t high = std::clamp(shape.in_width * channels - from, low, end);
      copy_or_clear<T>(nullptr, low - begin, to);
      if (high > low) copy_or_clear(line + (from + low), high - low, to + (low - begin));
      copy_or_clear<T>(nullptr, end - high, to + (high - begin));
    } else {
      const T* line = image + row * shape.in_width * pixel;
      for (std::int64_t e = begin; e < end;) {
        const std::int64_t s = e / channels, c = e % channels;
        const std::int64_t n = std::min(channels - c, end - e);
        const std::int64_t column = left + s * shape.dilation_width;
        const bool exists = column >= 0 && column < shape.in_width;
        copy_or_clear<T>(exists ? line + column * pixel + c : nullptr, n, to + (e - begin));
        e += n;
      }
    }
    to += end - begin;
    first += end - begin;
  }
}

// The same elements for `pixels` pixels of y, `stride` apart.
template <class T>
void read_patches(const Shape& shape, const T* image, std::int64_t pixel, std::int64_t pixels,
                  std::int64_t first, std::int64_t count, std::int64_t stride, T* to) {
  std::int64_t i = pixel / shape.out_width, j = pixel % shape.out_width;
  for (std::int64_t q = 0; q < pixels; ++q, to += stride) {
    read_patch(shape, image, i, j, first, count, to);
    if (++j == shape.out_width) {
      j = 0;
      ++i;
    }
  }
}

// A block whose operands are plain rows of a and panels of b.
template <class T>
Block<T> make_block(std::int64_t m, std::int64_t n, std::int64_t k) {
  Block<T> block;
  block.m = m;
  block.n = n;
  block.k = k;
  block.panel_rows = divide_up(m, divide_up(m, kernels<T>().tile_rows));
  block.transposed = false;
  block.finish = nullptr;
  return block;
}

}  // namespace

template <class T>
void gemm_forward(const Shape& shape, const T* x, const T* weight, const T* bias, T* y) {
  const Kernels<T>& kernel = kernels<T>();
  const std::int64_t filters = shape.out_channels, pixels = shape.out_pixels(),
                     patch = shape.patch(), width = kernel.tile_columns;
  const std::int64_t row = shape.groups * filters;  // of y
  if (patch == 0) {
    for (std::int64_t i = 0; i < shape.batch * pixels * row; ++i) {
      y[i] = bias != nullptr ? bias[i % row] : T(0);
    }
    return;
  }
  const std::int64_t step = even_piece(patch, most_steps, 1);
  const std::int64_t pixel_step = even_piece(
      pixels,
      std::max(kernel.tile_rows, elements_of_block / step / kernel.tile_rows * kernel.tile_rows),
      kernel.tile_rows);
  const std::int64_t blocks = divide_up(pixels, pixel_step);
  const int threads = threads_of(shape);
  const std::int64_t padded = round_up(filters, width), group_size = padded * patch;
  Buffers<T> buffers;
  const std::int64_t patches_size = pixel_step * step;
  const std::int64_t panel_start = buffers.add(shape.groups * group_size + 2 * width);
  const std::int64_t patches_start = buffers.add(patches_size, threads);
  const std::vector<T> ordered = filters_with_channels_last(shape, weight);
  T* memory = buffers.reserve();
  T* panels = memory + panel_start;
  for (std::int64_t g = 0; g < shape.groups; ++g) {
    for (std::int64_t p = 0; p < patch; p += step) {
      kernel.pack(ordered.data() + g * filters * patch + p, patch, 1, filters,
                  std::min(step, patch - p), width, panels + g * group_size + p * padded);
    }
  }
  run_units(threads, shape.batch * shape.groups * blocks,
            [&](std::int64_t unit, std::int64_t thread) {
              const std::int64_t image = unit / blocks / shape.groups;
              const std::int64_t group = unit / blocks % shape.groups;
              const std::int64_t first = unit % blocks * pixel_step;
              const std::int64_t count = std::min(pixel_step, pixels - first);
              const T* from = x + image * shape.in_pixels() * shape.groups * shape.in_channels +
                              group * shape.in_channels;
              T* patches = memory + patches_start + thread * buffers.stride(patches_size);
              T* to = y + (image * pixels + first) * row + group * filters;
              for (std::int64_t q = 0; q < count && bias != nullptr; ++q) {
                std::copy_n(bias + group * filters, filters, to + q * row);
              }
              for (std::int64_t p = 0; p < patch; p += step) {
                const std::int64_t steps = std::min(step, patch - p);
                read_patches(shape, from, first, count, p, steps, steps, patches);
                Block<T> block = make_block<T>(count, filters, steps);
                block.a = patches;
                block.a_row_stride = steps;
                block.a_k_stride = 1;
                block.a_panel_stride = block.panel_rows * steps;
                block.b = panels + group * group_size + p * padded;
                block.b_k_stride = width;
                block.b_panel_stride = width * steps;
                block.sums = to;
                block.sums_row_stride = row;
                block.accumulate = p > 0 || bias != nullptr;
                kernel.block(block);
              }
            });
}

template <class T>
void gemm_weight_gradient(const Shape& shape, const T* x, const T* y, T* weight) {
  const Kernels<T>& kernel = kernels<T>();
  constexpr std::int64_t pixel_step = 256;
  const std::int64_t filters = shape.out_channels, patch = shape.patch(),
                     pixels = shape.out_pixels(), width = kernel.tile_columns;
  const std::int64_t row = shape.groups * filters;  // of y
  const std::int64_t column_step = even_piece(patch, 8 * width, width);
  const std::int64_t column_blocks = divide_up(patch, column_step);
  // Each run of images has separate sums, which are added at the end.
  const std::int64_t runs = std::clamp<std::int64_t>(few_units / (column_blocks * shape.groups), 1,
                                                     std::max<std::int64_t>(1, shape.batch));
  const std::int64_t numel = row * patch;
  const int threads = threads_of(shape);
  Buffers<T> buffers;
  const std::int64_t patches_size = column_step * pixel_step;
  const std::int64_t sums_start = buffers.add(numel * runs);
  const std::int64_t patches_start = buffers.add(patches_size, threads);
  T* memory = buffers.reserve();
  T* sums = memory + sums_start;
  run_units(threads, runs * shape.groups * column_blocks,
            [&](std::int64_t unit, std::int64_t thread) {
              const std::int64_t run = unit / (shape.groups * column_blocks);
              const std::int64_t group = unit / column_blocks % shape.groups;
              const std::int64_t column = unit % column_blocks * column_step;
              const std::int64_t columns = std::min(column_step, patch - column);
              T* patches = memory + patches_start + thread * buffers.stride(patches_size);
              T* to = sums + run * numel + group * filters * patch + column;
              const std::int64_t first_image = shape.batch * run / runs;
              const std::int64_t end_image = shape.batch * (run + 1) / runs;
              for (std::int64_t f = 0; f < filters && first_image == end_image; ++f) {
                std::fill_n(to + f * patch, columns, T(0));
              }
              for (std::int64_t n = first_image; n < end_image; ++n) {
                const T* from = x + n * shape.in_pixels() * shape.groups * shape.in_channels +
                                group * shape.in_channels;
                const T* gradient = y + n * pixels * row + group * filters;
                for (std::int64_t first = 0; first < pixels; first += pixel_step) {
                  const std::int64_t count = std::min(pixel_step, pixels - first);
                  read_patches(shape, from, first, count, column, columns, column_step, patches);
                  Block<T> block = make_block<T>(filters, columns, count);
                  block.a = gradient + first * row;
                  block.a_row_stride = 1;
                  block.a_k_stride = row;
                  block.a_panel_stride = block.panel_rows;
                  block.b = patches;
                  block.b_k_stride = column_step;
                  block.b_panel_stride = width;
                  block.sums = to;
                  block.sums_row_stride = patch;
                  block.accumulate = n > first_image || first > 0;
                  kernel.block(block);
                }
              }
            });
  const std::int64_t taps = shape.taps(), channels = shape.in_channels;
  detail::parallel_for(row, divide_up(16 * 1024, patch), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t f = begin; f < end; ++f) {
      T* total = sums + f * patch;
      for (std::int64_t run = 1; run < runs; ++run) {
        const T* from = total + run * numel;
        for (std::int64_t p = 0; p < patch; ++p) total[p] += from[p];
      }
      T* to = weight + f * patch;
      for (std::int64_t c = 0; c < channels; ++c) {
        for (std::int64_t t = 0; t < taps; ++t) *to++ = total[t * channels + c];
      }
    }
  });
}

template <class T>
void scatter_input_gradient(const Shape& shape, const T* weight, const T* y, const T* bias, T* x) {
  const Kernels<T>& kernel = kernels<T>();
  const std::int64_t filters = shape.out_channels, taps = shape.taps(), width = kernel.tile_columns;
  const std::int64_t row = shape.groups * filters, pixel = shape.groups * shape.in_channels;
  const std::int64_t channel_step = even_piece(shape.in_channels, 64, 1);
  const std::int64_t channel_blocks = divide_up(shape.in_channels, channel_step);
  const std::int64_t block_columns = taps * channel_step;
  const std::int64_t row_step = std::clamp<std::int64_t>(
      elements_of_block / (block_columns * shape.out_width), 1, shape.out_height);
  const int threads = threads_of(shape);
  const std::int64_t padded = round_up(block_columns, width), panel_size = padded * filters;
  Buffers<T> buffers;
  const std::int64_t columns_size = row_step * shape.out_width * block_columns;
  const std::int64_t panel_start =
      buffers.add(shape.groups * channel_blocks * panel_size + 2 * width);
  const std::int64_t columns_start = buffers.add(columns_size, threads);
  const std::vector<T> ordered = filters_with_channels_last(shape, weight);
  T* memory = buffers.reserve();
  T* panels = memory + panel_start;
  // The gradients of one block of channels: [filters, taps, channels of the block].
  std::vector<T> part(unsigned_of(filters * block_columns));
  for (std::int64_t b = 0; b < shape.groups * channel_blocks; ++b) {
    const std::int64_t group = b / channel_blocks, channel = b % channel_blocks * channel_step;
    const std::int64_t channels = std::min(channel_step, shape.in_channels - channel);
    for (std::int64_t t = 0; t < filters * taps; ++t) {
      std::copy_n(ordered.data() + (group * filters * taps + t) * shape.in_channels + channel,
                  channels, part.data() + t * channels);
    }
    kernel.pack(part.data(), 1, taps * channels, taps * channels, filters, width,
                panels + b * panel_size);
  }
  run_units(
      threads, shape.batch * shape.groups * channel_blocks,
      [&](std::int64_t unit, std::int64_t thread) {
        const std::int64_t image = unit / channel_blocks / shape.groups;
        const std::int64_t group = unit / channel_blocks % shape.groups;
        const std::int64_t channel = unit % channel_blocks * channel_step;
        const std::int64_t channels = std::min(channel_step, shape.in_channels - channel);
        const std::int64_t offset = group * shape.in_channels + channel;
        T* to = x + image * shape.in_pixels() * pixel + offset;
        T* columns = memory + columns_start + thread * buffers.stride(columns_size);
        for (std::int64_t q = 0; q < shape.in_pixels(); ++q) {
          for (std::int64_t c = 0; c < channels; ++c) {
            to[q * pixel + c] = bias != nullptr ? bias[offset + c] : T(0);
          }
        }
        for (std::int64_t i = 0; i < shape.out_height; i += row_step) {
          const std::int64_t count = std::min(row_step, shape.out_height - i) * shape.out_width;
          Block<T> block = make_block<T>(count, taps * channels, filters);
          block.a = y + (image * shape.out_pixels() + i * shape.out_width) * row + group * filters;
          block.a_row_stride = row;
          block.a_k_stride = 1;
          block.a_panel_stride = block.panel_rows * row;
          block.b = panels + (group * channel_blocks + channel / channel_step) * panel_size;
          block.b_k_stride = width;
          block.b_panel_stride = width * filters;
          block.sums = columns;
          block.sums_row_stride = taps * channels;
          block.accumulate = false;
          kernel.block(block);
          const T* from = columns;
          for (std::int64_t q = 0; q < count; ++q) {
            const std::int64_t top =
                (i + q / shape.out_width) * shape.stride_height - shape.padding_height;
            const std::int64_t left =
                q % shape.out_width * shape.stride_width - shape.padding_width;
            for (std::int64_t r = 0; r < shape.kernel_height; ++r) {
              for (std::int64_t s = 0; s < shape.kernel_width; ++s, from += channels) {
                const std::int64_t in_row = top + r * shape.dilation_height;
                const std::int64_t in_column = left + s * shape.dilation_width;
                if (in_row < 0 || in_row >= shape.in_height || in_column < 0 ||
                    in_column >= shape.in_width) {
                  continue;
                }
                T* sum = to + (in_row * shape.in_width + in_column) * pixel;
                for (std::int64_t c = 0; c < channels; ++c) sum[c] += from[c];
              }
            }
          }
        }
      });
}

// ---- 1 × 1 filters

// Groups of few channels are products too small to justify a call each.
bool pointwise_suits(const Shape& shape) {
  return conv::pointwise_suits(shape) && (shape.groups == 1 || shape.in_channels >= 32);
}

template <class T>
void pointwise_forward(const Shape& shape, const T* x, const T* weight, const T* bias, T* y) {
  const std::int64_t ins = shape.in_channels, outs = shape.out_channels;
  for (std::int64_t g = 0; g < shape.groups; ++g) {
    gemm({.dtype = dtype_of<T>,
          .m = shape.batch * shape.out_pixels(),
          .n = outs,
          .k = ins,
          .a = {x + g * ins, shape.groups * ins, 1},
          .b = {weight + g * outs * ins, 1, ins},
          .c = y + g * outs,
          .c_row_stride = shape.groups * outs,
          .bias = bias != nullptr ? bias + g * outs : nullptr});
  }
}

template <class T>
void pointwise_input_gradient(const Shape& shape, const T* weight, const T* y, const T* bias,
                              T* x) {
  const std::int64_t ins = shape.in_channels, outs = shape.out_channels;
  for (std::int64_t g = 0; g < shape.groups; ++g) {
    gemm({.dtype = dtype_of<T>,
          .m = shape.batch * shape.out_pixels(),
          .n = ins,
          .k = outs,
          .a = {y + g * outs, shape.groups * outs, 1},
          .b = {weight + g * outs * ins, ins, 1},
          .c = x + g * ins,
          .c_row_stride = shape.groups * ins,
          .bias = bias != nullptr ? bias + g * ins : nullptr});
  }
}

// Every image, or run of images, has separate sums, which are added at the end.
template <class T>
void pointwise_weight_gradient(const Shape& shape, const T* x, const T* y, T* weight) {
  const std::int64_t ins = shape.in_channels, outs = shape.out_channels;
  const std::int64_t numel = shape.groups * outs * ins;
  const std::int64_t runs = std::clamp<std::int64_t>(
      most_partials / std::max<std::int64_t>(1, numel), 1, std::max<std::int64_t>(1, shape.batch));
  const std::int64_t images = divide_up(shape.batch, runs);
  std::vector<T> partial(unsigned_of(runs * numel));
  detail::parallel_for(
      gemm_threads(work_of(shape), small_work), runs, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t run = begin; run < end; ++run) {
          const std::int64_t first = std::min(shape.batch, run * images);
          const std::int64_t count = std::min(images, shape.batch - first);
          const std::int64_t start = first * shape.out_pixels();
          for (std::int64_t g = 0; g < shape.groups; ++g) {
            gemm({.dtype = dtype_of<T>,
                  .m = outs,
                  .n = ins,
                  .k = count * shape.out_pixels(),
                  .a = {y + start * shape.groups * outs + g * outs, 1, shape.groups * outs},
                  .b = {x + start * shape.groups * ins + g * ins, shape.groups * ins, 1},
                  .c = partial.data() + run * numel + g * outs * ins,
                  .c_row_stride = ins});
          }
        }
      });
  detail::parallel_for(numel, 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      T sum = 0;
      for (std::int64_t run = 0; run < runs; ++run) sum += partial[unsigned_of(run * numel + i)];
      weight[i] = sum;
    }
  });
}

#define EXTENSOR_INSTANTIATE(T)                                                           \
  template void gemm_forward(const Shape&, const T*, const T*, const T*, T*);             \
  template void gemm_weight_gradient(const Shape&, const T*, const T*, T*);               \
  template void scatter_input_gradient(const Shape&, const T*, const T*, const T*, T*);   \
  template void pointwise_forward(const Shape&, const T*, const T*, const T*, T*);        \
  template void pointwise_input_gradient(const Shape&, const T*, const T*, const T*, T*); \
  template void pointwise_weight_gradient(const Shape&, const T*, const T*, T*);
EXTENSOR_INSTANTIATE(float)
EXTENSOR_INSTANTIATE(double)
#undef EXTENSOR_INSTANTIATE

}  // namespace extensor::cpu::conv::channels_last
