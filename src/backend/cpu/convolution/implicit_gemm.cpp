// Convolution as a matrix product whose second operand, the patches, exists only block by block,
// packed as the tile kernel reads it.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "backend/cpu/convolution/patch_reader.h"
#include "backend/cpu/convolution/routes.h"
#include "backend/cpu/gemm/kernels.h"

namespace extensor::cpu::conv {

namespace {

constexpr std::int64_t most_steps = 512;               // of the patch per block
constexpr std::int64_t elements_of_block = 64 * 1024;  // patches that stay in cache
constexpr std::int64_t few_units = 32;                 // enough to keep every thread busy

// The filters of every group as panels of rows, block by block of the patch.
template <class T>
struct PackedFilters {
  std::int64_t rows, patch, step, panel_rows, padded_rows, group_size;

  PackedFilters(std::int64_t filters, std::int64_t elements, std::int64_t elements_together)
      : rows(filters),
        patch(elements),
        step(elements_together),
        panel_rows(divide_up(rows, divide_up(rows, kernels<T>().tile_rows))),
        padded_rows(round_up(rows, panel_rows)),
        group_size(padded_rows * patch) {}

  // Packing writes past the end.
  std::int64_t size(std::int64_t groups) const {
    return groups * group_size + 2 * kernels<T>().tile_columns;
  }
  // Packs in order, because each block writes past its end into the next one.
  void pack(const T* weight, std::int64_t groups, T* to) const {
    for (std::int64_t g = 0; g < groups; ++g) {
      for (std::int64_t p = 0; p < patch; p += step) {
        kernels<T>().pack(weight + g * rows * patch + p, patch, 1, rows, std::min(step, patch - p),
                          panel_rows, to + g * group_size + p * padded_rows);
      }
    }
  }
};

// The patch readers of each thread, allocated before the threads start.
template <class T>
struct Readers {
  std::vector<PatchReader<T>> readers;
  std::vector<Segment> segments;
  std::int64_t segment_count;

  Readers(const Shape& shape, std::int64_t pixels, std::int64_t channels, std::int64_t row_pixels,
          int threads)
      : readers(static_cast<std::size_t>(threads), PatchReader<T>(shape, pixels, channels)),
        segment_count(PatchReader<T>::most_segments(shape, row_pixels)) {
    segments.resize(static_cast<std::size_t>(threads * segment_count));
  }
  std::int64_t stage_size() const { return readers[0].stage_size(); }
  PatchReader<T>& of(std::int64_t thread) { return readers[static_cast<std::size_t>(thread)]; }
  Segment* segments_of(std::int64_t thread) { return segments.data() + thread * segment_count; }
};

template <class T>
void fill_without_patches(const Shape& shape, const T* bias, T* y) {
  const std::int64_t channels = shape.groups * shape.out_channels, pixels = shape.out_pixels();
  for (std::int64_t plane = 0; plane < shape.batch * channels; ++plane) {
    std::fill(y + plane * pixels, y + (plane + 1) * pixels,
              bias != nullptr ? bias[plane % channels] : T(0));
  }
}

}  // namespace

template <class T>
void gemm_forward(const Shape& shape, const T* x, const T* weight, const T* bias, T* y) {
  if (shape.patch() == 0) return fill_without_patches(shape, bias, y);
  const Kernels<T>& kernel = kernels<T>();
  const std::int64_t rows = shape.out_channels, pixels = shape.out_pixels();
  const std::int64_t width = kernel.tile_columns;
  const std::int64_t channel_step =
      even_piece(shape.in_channels, std::max<std::int64_t>(1, most_steps / shape.taps()), 1);
  const PackedFilters<T> filters(rows, shape.patch(), channel_step * shape.taps());
  const std::int64_t most_columns =
      std::max(width, elements_of_block / filters.step / width * width);
  const std::int64_t column_step = even_piece(pixels, most_columns, width);
  const std::int64_t blocks = divide_up(pixels, column_step);
  const int threads = threads_of(shape);

  Readers<T> readers(shape, column_step, channel_step, width, threads);
  Buffers<T> buffers;
  const std::int64_t panel_size = column_step * filters.step + 2 * width;
  const std::int64_t filter_start = buffers.add(filters.size(shape.groups));
  const std::int64_t panel_start = buffers.add(panel_size, threads);
  const std::int64_t stage_start = buffers.add(readers.stage_size(), threads);
  T* memory = buffers.reserve();
  T* packed = memory + filter_start;
  filters.pack(weight, shape.groups, packed);

  const auto run_unit = [&](std::int64_t unit, std::int64_t thread) {
    const std::int64_t image = unit / blocks, group = image % shape.groups;
    const std::int64_t first = unit % blocks * column_step;
    const std::int64_t count = std::min(column_step, pixels - first);
    const T* from = x + image * shape.in_channels * shape.in_pixels();
    T* panels = memory + panel_start + thread * buffers.stride(panel_size);
    T* stage = memory + stage_start + thread * buffers.stride(readers.stage_size());
    T* to = y + image * rows * pixels + first;
    for (std::int64_t i = 0; i < rows && bias != nullptr; ++i) {
      std::fill(to + i * pixels, to + i * pixels + count, bias[group * rows + i]);
    }
    PatchReader<T>& reader = readers.of(thread);
    for (std::int64_t p = 0; p < filters.patch; p += filters.step) {
      const std::int64_t steps = std::min(filters.step, filters.patch - p);
      reader.open(from, p / shape.taps(), steps / shape.taps(), first, stage);
      for (std::int64_t j = 0; j < count; j += width) {
        reader.read(p, steps, j, std::min(width, count - j), readers.segments_of(thread), width,
                    panels + j * steps);
      }
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
  };
  run_units(threads, shape.batch * shape.groups * blocks, run_unit);
}

template <class T>
void gemm_weight_gradient(const Shape& shape, const T* x, const T* y, T* weight) {
  const Kernels<T>& kernel = kernels<T>();
  constexpr std::int64_t pixel_step = 256;
  const std::int64_t width = kernel.tile_columns, rows = shape.out_channels;
  const std::int64_t patch = shape.patch(), pixels = shape.out_pixels();
  const std::int64_t column_step = even_piece(patch, 8 * width, width);
  const std::int64_t column_blocks = divide_up(patch, column_step);
  // Each run of images has separate sums, which are added at the end.
  const std::int64_t runs = std::clamp<std::int64_t>(few_units / (column_blocks * shape.groups), 1,
                                                     std::max<std::int64_t>(1, shape.batch));
  const std::int64_t numel = shape.groups * rows * patch;
  const std::int64_t panel_rows = divide_up(rows, divide_up(rows, kernel.tile_rows));
  const int threads = threads_of(shape);

  Readers<T> readers(shape, pixel_step, std::min(shape.in_channels, column_step / shape.taps() + 2),
                     pixel_step, threads);
  Buffers<T> buffers;
  const std::int64_t rows_size = width * pixel_step + width;
  const std::int64_t panel_size = column_step * pixel_step + 2 * width;
  const std::int64_t sums_start = buffers.add(runs > 1 ? numel * runs : 0);
  const std::int64_t rows_start = buffers.add(rows_size, threads);
  const std::int64_t panel_start = buffers.add(panel_size, threads);
  const std::int64_t stage_start = buffers.add(readers.stage_size(), threads);
  T* memory = buffers.reserve();
  T* sums = runs > 1 ? memory + sums_start : weight;

  const auto run_unit = [&](std::int64_t unit, std::int64_t thread) {
    const std::int64_t run = unit / (shape.groups * column_blocks);
    const std::int64_t group = unit / column_blocks % shape.groups;
    const std::int64_t column = unit % column_blocks * column_step;
    const std::int64_t columns = std::min(column_step, patch - column);
    const std::int64_t channel = column / shape.taps();
    const std::int64_t channels = (column + columns - 1) / shape.taps() + 1 - channel;
    T* patch_rows = memory + rows_start + thread * buffers.stride(rows_size);
    T* panels = memory + panel_start + thread * buffers.stride(panel_size);
    T* stage = memory + stage_start + thread * buffers.stride(readers.stage_size());
    T* to = sums + run * numel + group * rows * patch + column;
    PatchReader<T>& reader = readers.of(thread);
    const std::int64_t first_image = shape.batch * run / runs;
    const std::int64_t end_image = shape.batch * (run + 1) / runs;
    for (std::int64_t i = 0; i < rows && first_image == end_image; ++i) {
      std::fill(to + i * patch, to + i * patch + columns, T(0));
    }
    for (std::int64_t n = first_image; n < end_image; ++n) {
      const T* from = x + (n * shape.groups + group) * shape.in_channels * shape.in_pixels();
      const T* gradient = y + (n * shape.groups + group) * rows * pixels;
      for (std::int64_t first = 0; first < pixels; first += pixel_step) {
        const std::int64_t count = std::min(pixel_step, pixels - first);
        reader.open(from, channel, channels, first, stage);
        for (std::int64_t j = 0; j < columns; j += width) {
          const std::int64_t in_panel = std::min(width, columns - j);
          reader.read(column + j, in_panel, 0, count, readers.segments_of(thread), pixel_step,
                      patch_rows);
          kernel.pack(patch_rows, pixel_step, 1, in_panel, count, width, panels + j * count);
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
  };
  run_units(threads, runs * shape.groups * column_blocks, run_unit);
  if (runs == 1) return;
  detail::parallel_for(numel, 16 * 1024, [&](std::int64_t begin, std::int64_t end) {
    std::copy(sums + begin, sums + end, weight + begin);
    for (std::int64_t run = 1; run < runs; ++run) {
      const T* from = sums + run * numel;
      for (std::int64_t i = begin; i < end; ++i) weight[i] += from[i];
    }
  });
}

#define EXTENSOR_INSTANTIATE(T)                                               \
  template void gemm_forward(const Shape&, const T*, const T*, const T*, T*); \
  template void gemm_weight_gradient(const Shape&, const T*, const T*, T*);
EXTENSOR_INSTANTIATE(float)
EXTENSOR_INSTANTIATE(double)
#undef EXTENSOR_INSTANTIATE

}  // namespace extensor::cpu::conv
