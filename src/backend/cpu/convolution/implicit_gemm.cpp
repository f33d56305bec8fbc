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
constexpr std::int64_t small_image = 128;              // pixels below which images are joined
constexpr std::int64_t most_joined = 256;              // pixels of joined images

// The filters of every group as panels of rows, block by block of the patch: packed, or read in
// place where that beats packing, as in the matrix product.
template <class T>
struct FilterBlocks {
  std::int64_t rows, patch, step, panel_rows, block_size;
  bool packed;

  FilterBlocks(const Shape& shape, std::int64_t elements_together)
      : rows(shape.out_channels),
        patch(shape.patch()),
        step(elements_together),
        panel_rows(divide_up(rows, divide_up(rows, kernels<T>().tile_rows))),
        block_size(round_up(rows, panel_rows) * step + 2 * kernels<T>().tile_columns) {
    const std::int64_t columns = shape.batch * shape.out_pixels();
    const std::int64_t few = 4 * kernels<T>().tile_columns;
    const bool same_sets = patch * static_cast<std::int64_t>(sizeof(T)) % 4096 == 0;
    packed = columns > 4 * few || (columns > few && same_sets);
  }

  std::int64_t blocks() const { return divide_up(patch, step); }
  std::int64_t panels() const { return divide_up(rows, panel_rows); }
  std::int64_t size(std::int64_t groups) const {
    return packed ? groups * blocks() * block_size : 0;
  }
  void pack(const T* weight, std::int64_t groups, int threads, T* to) const {
    if (!packed) return;
    run_units(threads, groups * blocks(), [&](std::int64_t unit, std::int64_t) {
      const std::int64_t p = unit % blocks() * step;
      kernels<T>().pack(weight + unit / blocks() * rows * patch + p, patch, 1, rows,
                        std::min(step, patch - p), panel_rows, to + unit * block_size);
    });
  }
  // The first operand of `block`: the panels from `panel` on, elements p … p + steps − 1 of the
  // patch.
  void select(const T* weight, const T* memory, std::int64_t group, std::int64_t panel,
              std::int64_t p, std::int64_t steps, Block<T>& block) const {
    block.panel_rows = panel_rows;
    if (packed) {
      block.a = memory + (group * blocks() + p / step) * block_size + panel * panel_rows * steps;
      block.a_row_stride = 1;
      block.a_k_stride = panel_rows;
      block.a_panel_stride = panel_rows * steps;
    } else {
      block.a = weight + (group * rows + panel * panel_rows) * patch + p;
      block.a_row_stride = patch;
      block.a_k_stride = 1;
      block.a_panel_stride = panel_rows * patch;
    }
  }
};

// Images whose pixels are joined, so that few lanes of the last tile are idle.
std::int64_t images_together(const Shape& shape, std::int64_t lanes) {
  const std::int64_t pixels = shape.out_pixels();
  if (pixels > small_image) return 1;
  std::int64_t best = 1;
  const auto computed = [&](std::int64_t images) { return round_up(images * pixels, lanes); };
  for (std::int64_t n = 2; n <= std::min(shape.batch, most_joined / pixels); ++n) {
    // Worth it for a twentieth.
    if (20 * computed(n) * best < 19 * computed(best) * n) best = n;
  }
  return best;
}

// The patch readers of each thread, allocated before the threads start.
template <class T>
struct Readers {
  std::vector<PatchReader<T>> readers;
  std::vector<Segment> segments;
  std::int64_t segment_count;

  Readers(const Shape& shape, std::int64_t pixels, std::int64_t channels, std::int64_t images,
          std::int64_t row_pixels, int threads)
      : readers(static_cast<std::size_t>(threads), PatchReader<T>(shape, pixels, channels, images)),
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
  const FilterBlocks<T> filters(shape, channel_step * shape.taps());
  const std::int64_t images = images_together(shape, width / 2);
  const std::int64_t most_columns =
      std::max(width, elements_of_block / filters.step / width * width);
  const std::int64_t column_step =
      images > 1 ? images * pixels : even_piece(pixels, most_columns, width);
  const std::int64_t blocks = divide_up(images * pixels, column_step);
  const int threads = threads_of(shape);
  // Few units of pixels: threads divide the rows of filters as well, and each reads the patches.
  constexpr std::int64_t least_panels = 4;
  const std::int64_t pixel_units = divide_up(shape.batch, images) * shape.groups * blocks;
  const std::int64_t parts =
      std::clamp<std::int64_t>(divide_up(threads, pixel_units), 1,
                               std::max<std::int64_t>(1, filters.panels() / least_panels));
  const std::int64_t panel_step = divide_up(filters.panels(), parts);

  Readers<T> readers(shape, column_step, channel_step, images, width, threads);
  Buffers<T> buffers;
  const std::int64_t panel_size = round_up(column_step, width) * filters.step + 2 * width;
  const std::int64_t joined_size = images > 1 ? panel_step * filters.panel_rows * column_step : 0;
  const std::int64_t filter_start = buffers.add(filters.size(shape.groups));
  const std::int64_t panel_start = buffers.add(panel_size, threads);
  const std::int64_t joined_start = buffers.add(joined_size, threads);
  const std::int64_t stage_start = buffers.add(readers.stage_size(), threads);
  T* memory = buffers.reserve();
  T* packed = memory + filter_start;
  filters.pack(weight, shape.groups, threads, packed);

  const auto run_unit = [&](std::int64_t unit, std::int64_t thread) {
    const std::int64_t panel = unit % parts * panel_step, first_row = panel * filters.panel_rows;
    const std::int64_t part_rows = std::min(panel_step * filters.panel_rows, rows - first_row);
    if (part_rows <= 0) return;
    unit /= parts;
    const std::int64_t first = unit % blocks * column_step, group = unit / blocks % shape.groups;
    const std::int64_t first_image = unit / blocks / shape.groups * images;
    const std::int64_t image_count = std::min(images, shape.batch - first_image);
    const std::int64_t count = std::min(column_step, image_count * pixels - first);
    const std::int64_t in_group = shape.in_channels * shape.in_pixels();
    const T* from = x + (first_image * shape.groups + group) * in_group;
    T* panels = memory + panel_start + thread * buffers.stride(panel_size);
    T* stage = memory + stage_start + thread * buffers.stride(readers.stage_size());
    const std::int64_t first_channel = group * rows + first_row;
    const auto plane = [&](std::int64_t n, std::int64_t i) {
      return y + ((first_image + n) * shape.groups * rows + first_channel + i) * pixels;
    };
    T* joined = memory + joined_start + thread * buffers.stride(joined_size);
    T* to = images > 1 ? joined : plane(0, 0) + first;
    const std::int64_t row_stride = images > 1 ? column_step : pixels;
    for (std::int64_t i = 0; i < part_rows && bias != nullptr; ++i) {
      std::fill_n(to + i * row_stride, count, bias[first_channel + i]);
    }
    PatchReader<T>& reader = readers.of(thread);
    for (std::int64_t p = 0; p < filters.patch; p += filters.step) {
      const std::int64_t steps = std::min(filters.step, filters.patch - p);
      reader.open(from, shape.groups * in_group, image_count, p / shape.taps(),
                  steps / shape.taps(), first, stage);
      for (std::int64_t j = 0; j < count; j += width) {
        reader.read(p, steps, j, std::min(width, count - j), readers.segments_of(thread), width,
                    panels + j * steps);
      }
      Block<T> block;
      filters.select(weight, packed, group, panel, p, steps, block);
      block.m = part_rows;
      block.n = count;
      block.k = steps;
      block.b = panels;
      block.b_k_stride = width;
      block.b_panel_stride = width * steps;
      block.sums = to;
      block.sums_row_stride = row_stride;
      block.transposed = false;
      block.accumulate = p > 0 || bias != nullptr;
      block.finish = nullptr;
      kernel.block(block);
    }
    for (std::int64_t n = 0; n < image_count && images > 1; ++n) {
      for (std::int64_t i = 0; i < part_rows; ++i) {
        std::copy_n(joined + i * row_stride + n * pixels, pixels, plane(n, i));
      }
    }
  };
  run_units(threads, pixel_units * parts, run_unit);
}

template <class T>
void gemm_weight_gradient(const Shape& shape, const T* x, const T* y, T* weight) {
  const Kernels<T>& kernel = kernels<T>();
  const std::int64_t width = kernel.tile_columns, rows = shape.out_channels;
  const std::int64_t patch = shape.patch(), pixels = shape.out_pixels();
  // Sums over few pixels are joined to longer ones.
  const std::int64_t images =
      pixels > small_image
          ? 1
          : std::clamp<std::int64_t>(most_joined / std::max<std::int64_t>(1, pixels), 1,
                                     std::max<std::int64_t>(1, shape.batch));
  const std::int64_t pixel_step = images > 1 ? images * pixels : std::min(pixels, most_joined);
  // Either operand is read element by element, and the other one packed. For few filters packing
  // the patches would be much of the work; too few would not fill vectors.
  constexpr std::int64_t few_filters = 96;
  const bool by_patches = rows <= few_filters && 8 * rows >= 7 * round_up(rows, width / 2);
  const std::int64_t column_step = even_piece(patch, 8 * width, width);
  const std::int64_t column_blocks = divide_up(patch, column_step);
  // Each run of images has separate sums, which are added at the end.
  const std::int64_t runs =
      std::clamp<std::int64_t>(few_units / (column_blocks * shape.groups), 1,
                               std::max<std::int64_t>(1, divide_up(shape.batch, images)));
  const std::int64_t numel = shape.groups * rows * patch;
  const auto panel_rows_of = [&](std::int64_t n) {
    return divide_up(n, divide_up(n, kernel.tile_rows));
  };
  const int threads = threads_of(shape);

  Readers<T> readers(shape, pixel_step, std::min(shape.in_channels, column_step / shape.taps() + 2),
                     images, pixel_step, threads);
  Buffers<T> buffers;
  const std::int64_t line = spread<T>(round_up(pixel_step, width));  // between rows of patches
  const std::int64_t rows_size = (by_patches ? column_step : width) * line + width;
  const std::int64_t panel_size =
      round_up(by_patches ? rows : column_step, width) * pixel_step + 2 * width;
  const std::int64_t gradient_size =
      images > 1 && !by_patches ? rows * line : 0;  // y of joined images
  const std::int64_t sums_start = buffers.add(runs > 1 ? numel * runs : 0);
  const std::int64_t rows_start = buffers.add(rows_size, threads);
  const std::int64_t panel_start = buffers.add(panel_size, threads);
  const std::int64_t gradient_start = buffers.add(gradient_size, threads);
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
    T* joined = memory + gradient_start + thread * buffers.stride(gradient_size);
    T* to = sums + run * numel + group * rows * patch + column;
    PatchReader<T>& reader = readers.of(thread);
    Segment* segments = readers.segments_of(thread);
    const std::int64_t in_image = shape.groups * shape.in_channels * shape.in_pixels();
    const std::int64_t out_image = shape.groups * rows * pixels;
    const std::int64_t first_image = shape.batch * run / runs;
    const std::int64_t end_image = shape.batch * (run + 1) / runs;
    for (std::int64_t i = 0; i < rows && first_image == end_image; ++i) {
      std::fill(to + i * patch, to + i * patch + columns, T(0));
    }
    for (std::int64_t n = first_image; n < end_image; n += images) {
      const std::int64_t image_count = std::min(images, end_image - n);
      const T* from = x + n * in_image + group * shape.in_channels * shape.in_pixels();
      const T* gradient = y + n * out_image + group * rows * pixels;
      for (std::int64_t first = 0; first < image_count * pixels; first += pixel_step) {
        const std::int64_t count = std::min(pixel_step, image_count * pixels - first);
        reader.open(from, in_image, image_count, channel, channels, first, stage);
        Block<T> block;
        block.k = count;
        block.b = panels;
        block.b_k_stride = width;
        block.b_panel_stride = width * count;
        block.sums = to;
        block.sums_row_stride = patch;
        block.accumulate = n > first_image || first > 0;
        block.finish = nullptr;
        block.transposed = by_patches;
        if (by_patches) {
          reader.read(column, columns, 0, count, segments, line, patch_rows);
          // In order, because packing writes past the end.
          for (std::int64_t i = 0; i < rows; i += width) {
            for (std::int64_t m = 0; m < image_count; ++m) {
              const std::int64_t part = images > 1 ? pixels : count;
              kernel.pack(gradient + m * out_image + i * pixels + first, pixels, 1,
                          std::min(width, rows - i), part, width,
                          panels + (i / width * count + m * part) * width);
            }
          }
          block.m = columns;
          block.n = rows;
          block.a = patch_rows;
          block.a_row_stride = line;
        } else {
          for (std::int64_t j = 0; j < columns; j += width) {
            const std::int64_t in_panel = std::min(width, columns - j);
            reader.read(column + j, in_panel, 0, count, segments, line, patch_rows);
            kernel.pack(patch_rows, line, 1, in_panel, count, width, panels + j * count);
          }
          block.m = rows;
          block.n = columns;
          block.a = gradient + first;
          block.a_row_stride = pixels;
          if (images > 1) {
            for (std::int64_t m = 0; m < image_count; ++m) {
              for (std::int64_t i = 0; i < rows; ++i) {
                std::copy_n(gradient + m * out_image + i * pixels, pixels,
                            joined + i * line + m * pixels);
              }
            }
            block.a = joined;
            block.a_row_stride = line;
          }
        }
        block.a_k_stride = 1;
        block.panel_rows = panel_rows_of(block.m);
        block.a_panel_stride = block.panel_rows * block.a_row_stride;
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
