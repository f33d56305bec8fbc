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
constexpr std::int64_t most_columns = 1024;        // of y: a row of tiles is never cut
constexpr std::int64_t channels_together = 48;     // of y, so that their points stay in cache
constexpr std::int64_t most_points = 1024 * 1024;  // of filters whose gradients are summed here

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

// The distance between the matrices of two points: slightly more than their size, because otherwise
// all 16 would share the same sets of the first-level cache.
template <class T>
std::int64_t spread(std::int64_t elements) {
  return elements + 128 / static_cast<std::int64_t>(sizeof(T));
}

// G w Gᵀ of filters [outs, ins, 3, 3] of one group, as rows [point][out][in].
template <class T>
void transform_filters(const T* weight, std::int64_t outs, std::int64_t ins, int threads, T* to) {
  constexpr std::int64_t step = 64;  // channels at a time, so that rows are written in runs
  const std::int64_t point_stride = spread<T>(outs * ins);
  run_units(threads, outs, [&](std::int64_t o, std::int64_t) {
    for (std::int64_t first = 0; first < ins; first += step) {
      const std::int64_t count = std::min(step, ins - first);
      T piece[points][step];
      for (std::int64_t c = 0; c < count; ++c) {
        const T* w = weight + (o * ins + first + c) * 9;
        T half[4][3];
        for (int j = 0; j < 3; ++j) {
          const T sum = w[j] + w[6 + j];
          half[0][j] = w[j];
          half[1][j] = T(0.5) * (sum + w[3 + j]);
          half[2][j] = T(0.5) * (sum - w[3 + j]);
          half[3][j] = w[6 + j];
        }
        for (int i = 0; i < 4; ++i) {
          const T sum = half[i][0] + half[i][2];
          piece[4 * i][c] = half[i][0];
          piece[4 * i + 1][c] = T(0.5) * (sum + half[i][1]);
          piece[4 * i + 2][c] = T(0.5) * (sum - half[i][1]);
          piece[4 * i + 3][c] = half[i][2];
        }
      }
      for (std::int64_t p = 0; p < points; ++p) {
        std::copy(piece[p], piece[p] + count, to + p * point_stride + o * ins + first);
      }
    }
  });
}

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
  return winograd_suits(shape) && points * shape.in_channels * shape.out_channels <= most_points;
}

template <class T>
bool winograd_forward(const Shape& shape, const T* x, const T* weight, const T* bias, T* y) {
  const Kernels<T>& product = kernels<T>();
  const WinogradKernels<T>& kernel = winograd_kernels<T>();
  const std::int64_t ins = shape.in_channels, outs = shape.out_channels;
  const std::int64_t width = product.tile_columns;
  const Tiling tiling(shape, wanted_tiles(ins), kernel.lanes);
  const std::int64_t tiles = round_up(tiling.tiles, width);
  const std::int64_t panel_rows = divide_up(outs, divide_up(outs, product.tile_rows));
  const std::int64_t padded_outs = round_up(outs, panel_rows);
  const std::int64_t out_step = std::max(panel_rows, channels_together / panel_rows * panel_rows);
  const int threads = threads_of(shape);

  Buffers<T> buffers;
  const std::int64_t filter_size = points * padded_outs * ins;
  const std::int64_t input_stride = spread<T>(ins * tiles);
  const std::int64_t result_stride = spread<T>(out_step * tiles);
  const std::int64_t input_size = points * input_stride;
  const std::int64_t result_size = points * result_stride;
  const std::int64_t scratch_size = winograd_scratch(tiling.chunk(0), kernel.lanes);
  const std::int64_t rows_start = buffers.add(points * spread<T>(outs * ins));
  const std::int64_t filter_start = buffers.add(shape.groups * filter_size + 2 * width);
  const std::int64_t input_start = buffers.add(input_size + 2 * width, threads);
  const std::int64_t result_start = buffers.add(result_size, threads);
  const std::int64_t scratch_start = buffers.add(scratch_size, threads);
  T* memory = buffers.reserve();
  T* filters = memory + filter_start;
  for (std::int64_t g = 0; g < shape.groups; ++g) {
    T* rows = memory + rows_start;
    transform_filters(weight + g * outs * ins * 9, outs, ins, threads, rows);
    for (std::int64_t p = 0; p < points; ++p) {
      product.pack(rows + p * spread<T>(outs * ins), ins, 1, outs, ins, panel_rows,
                   filters + g * filter_size + p * padded_outs * ins);
    }
  }

  const std::int64_t image_runs = divide_up(shape.batch, tiling.images);
  std::atomic<bool> finite{true};
  run_units(
      threads, image_runs * shape.groups * tiling.chunks,
      [&](std::int64_t unit, std::int64_t thread) {
        const TileRun run = tiling.chunk(unit % tiling.chunks);
        const std::int64_t group = unit / tiling.chunks % shape.groups;
        const std::int64_t first = unit / tiling.chunks / shape.groups * tiling.images;
        const std::int64_t images = std::min(tiling.images, shape.batch - first);
        T* input = memory + input_start + thread * buffers.stride(input_size + 2 * width);
        T* result = memory + result_start + thread * buffers.stride(result_size);
        T* scratch = memory + scratch_start + thread * buffers.stride(scratch_size);
        for (std::int64_t n = 0; n < images; ++n) {
          const T* image = x + ((first + n) * shape.groups + group) * ins * shape.in_pixels();
          const std::int64_t tile = n * tiling.chunk_tiles;
          for (std::int64_t c = 0; c < ins; ++c) {
            // A chunk may begin inside a panel, at a whole number of vectors.
            kernel.transform_input(image + c * shape.in_pixels(), shape.in_height, shape.in_width,
                                   shape.padding_height, shape.padding_width, run,
                                   {input + c * width, input_stride, width, ins * width, tile},
                                   scratch);
          }
        }
        const std::int64_t count = (images - 1) * tiling.chunk_tiles + run.count();
        bool good = true;
        for (std::int64_t o = 0; o < outs; o += out_step) {
          const std::int64_t rows = std::min(out_step, outs - o);
          for (std::int64_t p = 0; p < points; ++p) {
            Block<T> block;
            block.m = rows;
            block.n = count;
            block.k = ins;
            block.a = filters + group * filter_size + (p * padded_outs + o) * ins;
            block.a_row_stride = 1;
            block.a_k_stride = panel_rows;
            block.a_panel_stride = panel_rows * ins;
            block.panel_rows = panel_rows;
            block.b = input + p * input_stride;
            block.b_k_stride = width;
            block.b_panel_stride = width * ins;
            block.sums = result + p * result_stride;
            block.sums_row_stride = tiles;
            block.transposed = block.accumulate = false;
            block.finish = nullptr;
            product.block(block);
          }
          for (std::int64_t n = 0; n < images; ++n) {
            for (std::int64_t q = 0; q < rows; ++q) {
              const std::int64_t channel = group * outs + o + q;
              T* plane = y + ((first + n) * shape.groups * outs + channel) * shape.out_pixels();
              good &= kernel.transform_output(result + q * tiles + n * tiling.chunk_tiles,
                                              result_stride, run,
                                              bias != nullptr ? bias[channel] : T(0),
                                              shape.out_height, shape.out_width, plane, scratch);
            }
          }
        }
        if (!good) finite.store(false, std::memory_order_relaxed);
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

#define EXTENSOR_INSTANTIATE(T)                                                   \
  template bool winograd_forward(const Shape&, const T*, const T*, const T*, T*); \
  template bool winograd_weight_gradient(const Shape&, const T*, const T*, T*);
EXTENSOR_INSTANTIATE(float)
EXTENSOR_INSTANTIATE(double)
#undef EXTENSOR_INSTANTIATE

}  // namespace extensor::cpu::conv
