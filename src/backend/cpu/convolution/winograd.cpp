// 3 × 3 filters at stride 1: tiles of x and filters are transformed, multiplied point by point as
// 16 matrix products over the channels, and transformed back, in chunks of tiles that fit the
// cache.
#include <algorithm>
#include <atomic>
#include <cmath>

#include "backend/cpu/convolution/routes.h"
#include "backend/cpu/convolution/winograd_kernels.h"
#include "backend/cpu/gemm/kernels.h"

namespace extensor::cpu::conv {

namespace {

constexpr std::int64_t points = winograd_points;
constexpr std::int64_t least_channels = 16;
constexpr std::int64_t most_columns = 1024;         // of y: a row of tiles is never cut
constexpr std::int64_t channels_together = 48;      // of y, so that their points stay in cache
constexpr std::int64_t many_filters = 256 * 256;    // that exceed the cache once transformed
constexpr std::int64_t most_tiles_together = 256;   // whose points are multiplied in one unit
constexpr std::int64_t few_channels_together = 24;  // of y, where those units divide the channels
constexpr std::int64_t most_points = 1024 * 1024;   // of filters whose gradients are summed here

// The partition of a batch's tiles: chunks of rows of tiles, whose count is rounded up to whole
// vectors; several small images form a unit together.
struct Tiling {
  std::int64_t rows, columns;  // of tiles, in an image
  std::int64_t chunk_rows, chunks, chunk_tiles;
  std::int64_t images;  // in a unit
  std::int64_t tiles;   // in a unit, at most

  Tiling(const Shape& shape, std::int64_t wanted, std::int64_t lanes)
      : rows(divide_up(shape.out_height, 2)), columns(divide_up(shape.out_width, 2)) {
    chunk_rows = even_piece(rows, std::max<std::int64_t>(1, wanted / columns), 1);
    chunks = divide_up(rows, chunk_rows);
    chunk_tiles = round_up(chunk_rows * columns, lanes);
    images = chunks > 1 ? 1 : std::clamp<std::int64_t>(wanted / chunk_tiles, 1, shape.batch);
    tiles = images * chunk_tiles;
  }
  TileRun chunk(std::int64_t index) const {
    const std::int64_t first = index * chunk_rows;
    return {first, std::min(chunk_rows, rows - first), columns};
  }
  double use() const {  // fraction of tiles that are not padding
    return static_cast<double>(rows * columns) / static_cast<double>(chunks * chunk_tiles);
  }
};

std::int64_t wanted_tiles(std::int64_t channels) { return channels <= 128 ? 64 : 32; }

template <class T>
bool all_finite(const T* values, std::int64_t count) {
  T doubt = 0;
  for (std::int64_t i = 0; i < count; ++i) doubt += values[i] - values[i];
  return doubt == 0;
}

// The transformed filters of a group: panels of filters, each with one matrix per point.
template <class T>
struct FilterPanels {
  std::int64_t outs, ins, rows;  // rows of a panel
  std::int64_t point_size;       // of a panel; its transform writes past the end

  explicit FilterPanels(const Shape& shape)
      : outs(shape.out_channels),
        ins(shape.in_channels),
        rows(divide_up(outs, divide_up(outs, kernels<T>().tile_rows))),
        point_size(spread<T>(rows * ins + 2 * winograd_kernels<T>().lanes)) {}
  std::int64_t count() const { return divide_up(outs, rows); }
  std::int64_t panel_size() const { return points * point_size; }

  // G w Gᵀ of the filters of panel `index`.
  void transform(const Filters<T>& filters, std::int64_t index, T* to) const {
    const std::int64_t first = index * rows;
    winograd_kernels<T>().transform_filters(
        {filters.data + first * filters.out_stride, filters.out_stride, filters.in_stride,
         filters.turned, std::min(rows, outs - first), outs - first, ins, rows, to, point_size});
  }
};

}  // namespace

bool winograd_suits(const Shape& shape) {
  return shape.kernel_height == 3 && shape.kernel_width == 3 && shape.stride_height == 1 &&
         shape.stride_width == 1 && shape.dilation_height == 1 && shape.dilation_width == 1 &&
         shape.in_channels >= least_channels && shape.out_channels >= least_channels &&
         shape.out_width <= most_columns && shape.batch > 0 &&
         Tiling(shape, wanted_tiles(shape.in_channels), winograd_kernels<float>().lanes).use() >
             0.6;
}

bool winograd_suits_weights(const Shape& shape) {
  return getenv("NOWW") == nullptr && winograd_suits(shape) &&
         points * shape.in_channels * shape.out_channels <= most_points;
}

template <class T>
bool winograd_forward(const Shape& shape, const T* x, const Filters<T>& filters, const T* bias,
                      T* y) {
  const Kernels<T>& product = kernels<T>();
  const WinogradKernels<T>& kernel = winograd_kernels<T>();
  const std::int64_t ins = shape.in_channels, outs = shape.out_channels;
  const std::int64_t width = product.tile_columns;
  const FilterPanels<T> panels(shape);
  const Tiling whole(shape, most_tiles_together, kernel.lanes);
  // Few tiles, or filters that exceed the cache: see below.
  const bool together = shape.groups == 1 && whole.chunks == 1 &&
                        (whole.images >= shape.batch || ins * outs >= many_filters);
  const Tiling tiling = together ? whole : Tiling(shape, wanted_tiles(ins), kernel.lanes);
  const std::int64_t tiles = round_up(tiling.tiles, width);
  const std::int64_t panel_step = std::max<std::int64_t>(
      1, (together ? few_channels_together : channels_together) / panels.rows);
  const std::int64_t blocks = divide_up(panels.count(), panel_step);
  const std::int64_t image_runs = divide_up(shape.batch, tiling.images);
  const int threads = threads_of(shape);

  Buffers<T> buffers;
  const std::int64_t input_stride = spread<T>(ins * tiles);
  const std::int64_t result_stride = spread<T>(panel_step * panels.rows * tiles);
  const std::int64_t filters_size =
      (together ? panel_step : shape.groups * panels.count()) * panels.panel_size();
  const std::int64_t input_size = points * input_stride + 2 * width;
  const std::int64_t result_size = points * result_stride;
  const std::int64_t scratch_size = winograd_scratch(tiling.chunk(0), kernel.lanes);
  const std::int64_t filters_start = buffers.add(filters_size, together ? threads : 1);
  const std::int64_t input_start = buffers.add(input_size, together ? 1 : threads);
  const std::int64_t result_start = buffers.add(result_size, threads);
  const std::int64_t scratch_start = buffers.add(scratch_size, threads);
  T* memory = buffers.reserve();
  const auto scratch_of = [&](std::int64_t thread) {
    return memory + scratch_start + thread * buffers.stride(scratch_size);
  };

  // The tiles of a unit: rows of tiles of some images of a group.
  struct Unit {
    TileRun run;
    std::int64_t group, first, images;
  };
  const auto unit_of = [&](std::int64_t index) {
    const std::int64_t first = index / tiling.chunks / shape.groups * tiling.images;
    return Unit{tiling.chunk(index % tiling.chunks), index / tiling.chunks % shape.groups, first,
                std::min(tiling.images, shape.batch - first)};
  };
  const auto transform_channel = [&](const Unit& unit, std::int64_t c, T* input, T* scratch) {
    for (std::int64_t n = 0; n < unit.images; ++n) {
      const T* plane =
          x + (((unit.first + n) * shape.groups + unit.group) * ins + c) * shape.in_pixels();
      // A chunk may begin inside a panel, at a whole number of vectors.
      kernel.transform_input(
          plane, shape.in_height, shape.in_width, shape.padding_height, shape.padding_width,
          unit.run, {input + c * width, input_stride, width, ins * width, n * tiling.chunk_tiles},
          scratch);
    }
  };
  // The channels of y that a block of panels computes. Returns false if one is not finite.
  const auto multiply = [&](const Unit& unit, std::int64_t block_index, const T* transformed,
                            const T* input, T* result, T* scratch) {
    const std::int64_t o = block_index * panel_step * panels.rows;
    const std::int64_t rows = std::min(panel_step * panels.rows, outs - o);
    for (std::int64_t p = 0; p < points; ++p) {
      Block<T> block;
      block.m = rows;
      block.n = (unit.images - 1) * tiling.chunk_tiles + unit.run.count();
      block.k = ins;
      block.a = transformed + p * panels.point_size;
      block.a_row_stride = 1;
      block.a_k_stride = panels.rows;
      block.a_panel_stride = panels.panel_size();
      block.panel_rows = panels.rows;
      block.b = input + p * input_stride;
      block.b_k_stride = width;
      block.b_panel_stride = width * ins;
      block.sums = result + p * result_stride;
      block.sums_row_stride = tiles;
      block.transposed = block.accumulate = false;
      block.finish = nullptr;
      product.block(block);
    }
    bool finite = true;
    for (std::int64_t n = 0; n < unit.images; ++n) {
      for (std::int64_t q = 0; q < rows; ++q) {
        const std::int64_t channel = unit.group * outs + o + q;
        T* plane = y + ((unit.first + n) * shape.groups * outs + channel) * shape.out_pixels();
        finite &=
            kernel.transform_output(result + q * tiles + n * tiling.chunk_tiles, result_stride,
                                    unit.run, bias != nullptr ? bias[channel] : T(0),
                                    shape.out_height, shape.out_width, plane, scratch);
      }
    }
    return finite;
  };

  std::atomic<bool> finite{true};
  const auto keep = [&](bool good) {
    if (!good) finite.store(false, std::memory_order_relaxed);
  };
  const auto result_of = [&](std::int64_t thread) {
    return memory + result_start + thread * buffers.stride(result_size);
  };
  // Threads divide the channels, and filters are multiplied while they are in cache.
  for (std::int64_t i = 0; i < image_runs && together; ++i) {
    const Unit unit = unit_of(i);
    T* input = memory + input_start;
    run_units(threads, ins, [&](std::int64_t c, std::int64_t thread) {
      transform_channel(unit, c, input, scratch_of(thread));
    });
    run_units(threads, blocks, [&](std::int64_t index, std::int64_t thread) {
      T* transformed = memory + filters_start + thread * buffers.stride(filters_size);
      const std::int64_t first = index * panel_step;
      for (std::int64_t p = 0; p < std::min(panel_step, panels.count() - first); ++p) {
        panels.transform(filters, first + p, transformed + p * panels.panel_size());
      }
      keep(multiply(unit, index, transformed, input, result_of(thread), scratch_of(thread)));
    });
  }
  if (together) return finite.load();

  T* transformed = memory + filters_start;
  run_units(threads, shape.groups * panels.count(), [&](std::int64_t index, std::int64_t) {
    const std::int64_t group = index / panels.count();
    panels.transform({filters.data + group * outs * ins * 9, filters.out_stride, filters.in_stride,
                      filters.turned},
                     index % panels.count(), transformed + index * panels.panel_size());
  });
  run_units(threads, image_runs * shape.groups * tiling.chunks,
            [&](std::int64_t index, std::int64_t thread) {
              const Unit unit = unit_of(index);
              T* input = memory + input_start + thread * buffers.stride(input_size);
              T* scratch = scratch_of(thread);
              for (std::int64_t c = 0; c < ins; ++c) transform_channel(unit, c, input, scratch);
              for (std::int64_t b = 0; b < blocks; ++b) {
                keep(multiply(unit, b,
                              transformed + (unit.group * panels.count() + b * panel_step) *
                                                panels.panel_size(),
                              input, result_of(thread), scratch));
              }
            });
  return finite.load();
}

template <class T>
bool winograd_weight_gradient(const Shape& shape, const T* x, const T* y, T* weight) {
  const Kernels<T>& product = kernels<T>();
  const WinogradKernels<T>& kernel = winograd_kernels<T>();
  const std::int64_t ins = shape.in_channels, outs = shape.out_channels;
  const std::int64_t width = product.tile_columns;
  const Tiling tiling(shape, 2 * wanted_tiles(std::max(ins, outs)), kernel.lanes);
  const std::int64_t tiles = tiling.tiles;
  const std::int64_t panel_rows = divide_up(outs, divide_up(outs, product.tile_rows));
  const std::int64_t padded_ins = round_up(ins, width);
  const std::int64_t numel = shape.groups * points * outs * ins;
  const std::int64_t image_runs = divide_up(shape.batch, tiling.images);
  // Each run of units has separate sums, which are added at the end.
  const std::int64_t units = image_runs * tiling.chunks;
  const std::int64_t runs =
      std::min(units, std::clamp<std::int64_t>(2 * most_points / numel, 4, 16));
  const int threads = threads_of(shape);

  Buffers<T> buffers;
  const std::int64_t input_stride = spread<T>(ins * tiles);
  const std::int64_t gradient_stride = spread<T>(outs * tiles);
  const std::int64_t input_size = points * input_stride;
  const std::int64_t gradient_size = points * gradient_stride;
  const std::int64_t panel_size = padded_ins * tiles + 2 * width;
  const std::int64_t scratch_size = winograd_scratch(tiling.chunk(0), kernel.lanes);
  const std::int64_t sums_start = buffers.add(runs * numel);
  const std::int64_t total_start = buffers.add(points * ins, threads);
  const std::int64_t input_start = buffers.add(input_size, threads);
  const std::int64_t gradient_start = buffers.add(gradient_size, threads);
  const std::int64_t panel_start = buffers.add(panel_size, threads);
  const std::int64_t scratch_start = buffers.add(scratch_size, threads);
  T* memory = buffers.reserve();
  T* sums = memory + sums_start;

  run_units(threads, runs * shape.groups, [&](std::int64_t index, std::int64_t thread) {
    const std::int64_t run = index / shape.groups, group = index % shape.groups;
    T* input = memory + input_start + thread * buffers.stride(input_size);
    T* gradient = memory + gradient_start + thread * buffers.stride(gradient_size);
    T* panels = memory + panel_start + thread * buffers.stride(panel_size);
    T* scratch = memory + scratch_start + thread * buffers.stride(scratch_size);
    T* to = sums + run * numel + group * points * outs * ins;
    const std::int64_t first_unit = units * run / runs, end_unit = units * (run + 1) / runs;
    for (std::int64_t unit = first_unit; unit < end_unit; ++unit) {
      const TileRun chunk = tiling.chunk(unit % tiling.chunks);
      const std::int64_t first = unit / tiling.chunks * tiling.images;
      const std::int64_t images = std::min(tiling.images, shape.batch - first);
      const std::int64_t chunk_tiles = round_up(chunk.count(), kernel.lanes);
      const std::int64_t count = (images - 1) * tiling.chunk_tiles + chunk_tiles;
      for (std::int64_t n = 0; n < images; ++n) {
        const std::int64_t image = (first + n) * shape.groups + group;
        const std::int64_t tile = n * tiling.chunk_tiles;
        for (std::int64_t c = 0; c < ins; ++c) {
          kernel.transform_input(x + (image * ins + c) * shape.in_pixels(), shape.in_height,
                                 shape.in_width, shape.padding_height, shape.padding_width, chunk,
                                 {input + c * tiles, input_stride, tiles, 0, tile}, scratch);
        }
        for (std::int64_t o = 0; o < outs; ++o) {
          kernel.transform_gradient(
              y + (image * outs + o) * shape.out_pixels(), shape.out_height, shape.out_width, chunk,
              {gradient + o * tiles, gradient_stride, tiles, 0, tile}, scratch);
        }
      }
      for (std::int64_t p = 0; p < points; ++p) {
        product.pack(input + p * input_stride, tiles, 1, ins, count, width, panels);
        Block<T> block;
        block.m = outs;
        block.n = ins;
        block.k = count;
        block.a = gradient + p * gradient_stride;
        block.a_row_stride = tiles;
        block.a_k_stride = 1;
        block.a_panel_stride = panel_rows * tiles;
        block.panel_rows = panel_rows;
        block.b = panels;
        block.b_k_stride = width;
        block.b_panel_stride = width * count;
        block.sums = to + p * outs * ins;
        block.sums_row_stride = ins;
        block.transposed = false;
        block.accumulate = unit > first_unit;
        block.finish = nullptr;
        product.block(block);
      }
    }
  });

  // Gᵀ u G of the sums over all runs.
  run_units(threads, shape.groups * outs, [&](std::int64_t row, std::int64_t thread) {
    T* total = memory + total_start + thread * buffers.stride(points * ins);
    for (std::int64_t p = 0; p < points; ++p) {
      const T* from = sums + ((row / outs * points + p) * outs + row % outs) * ins;
      T* to = total + p * ins;
      std::copy(from, from + ins, to);
      for (std::int64_t run = 1; run < runs; ++run) {
        from += numel;
        for (std::int64_t c = 0; c < ins; ++c) to[c] += from[c];
      }
    }
    for (std::int64_t c = 0; c < ins; ++c) {
      const auto u = [&](int p) { return total[p * ins + c]; };
      T half[3][4];
      for (int j = 0; j < 4; ++j) {
        const T sum = T(0.5) * (u(4 + j) + u(8 + j));
        half[0][j] = u(j) + sum;
        half[1][j] = T(0.5) * (u(4 + j) - u(8 + j));
        half[2][j] = sum + u(12 + j);
      }
      T* w = weight + (row * ins + c) * 9;
      for (int i = 0; i < 3; ++i) {
        const T sum = T(0.5) * (half[i][1] + half[i][2]);
        w[3 * i] = half[i][0] + sum;
        w[3 * i + 1] = T(0.5) * (half[i][1] - half[i][2]);
        w[3 * i + 2] = sum + half[i][3];
      }
    }
  });
  return all_finite(weight, shape.groups * outs * ins * 9);
}

#define EXTENSOR_INSTANTIATE(T)                                                            \
  template bool winograd_forward(const Shape&, const T*, const Filters<T>&, const T*, T*); \
  template bool winograd_weight_gradient(const Shape&, const T*, const T*, T*);
EXTENSOR_INSTANTIATE(float)
EXTENSOR_INSTANTIATE(double)
#undef EXTENSOR_INSTANTIATE

}  // namespace extensor::cpu::conv
