// Convolutions with few filters: images are copied with their padding, then read in place tap by
// tap.
#include <algorithm>

#include "backend/cpu/convolution/direct_kernels.h"
#include "backend/cpu/convolution/routes.h"
#include "backend/cpu/convolution/stage.h"

namespace extensor::cpu::conv {

namespace {

constexpr std::int64_t most_staged = 64 * 1024;  // elements of an image that stay in cache
constexpr std::int64_t few_filters = 16;
constexpr std::int64_t most_sums = 4096;   // weights whose gradients are summed in vectors
constexpr std::int64_t weight_units = 32;  // enough to keep every thread busy

// Unused columns in the last vector of a row of y.
template <class T>
std::int64_t idle_lanes(const Shape& shape) {
  return round_up(shape.out_width, direct_kernels<T>().lanes) - shape.out_width;
}

// The rows of y that one stage covers.
template <class T>
std::int64_t rows_together(const Shape& shape) {
  const std::int64_t row =
      shape.in_channels * shape.stride_width *
      (shape.out_width + shape.dilation_width * shape.kernel_width + idle_lanes<T>(shape));
  const std::int64_t extent = shape.dilation_height * (shape.kernel_height - 1) + 1;
  const std::int64_t rows = std::max<std::int64_t>(1, most_staged / row - extent);
  return even_piece(shape.out_height, divide_up(rows, shape.stride_height), 1);
}

}  // namespace

bool direct_suits(const Shape& shape) {
  if (shape.out_channels > few_filters || shape.patch() == 0 || !is_compact(shape)) return false;
  // At least one row of a stage has to fit.
  const std::int64_t extent = shape.dilation_height * (shape.kernel_height - 1) + 1;
  return shape.in_channels * extent * (2 * shape.in_width + 64) <= 2 * most_staged;
}

bool direct_suits_weights(const Shape& shape) {
  return direct_suits(shape) && shape.out_channels * shape.patch() <= most_sums;
}

template <class T>
void direct_forward(const Shape& shape, const T* x, const T* weight, const T* bias, T* y) {
  const std::int64_t row_step = rows_together<T>(shape);
  const Stage<T> stage(shape, shape.in_channels, row_step, idle_lanes<T>(shape));
  const std::int64_t blocks = divide_up(shape.out_height, row_step);
  const int threads = threads_of(shape);
  Buffers<T> buffers;
  buffers.add(stage.size(), threads);
  T* memory = buffers.reserve();
  run_units(threads, shape.batch * shape.groups * blocks,
            [&](std::int64_t unit, std::int64_t thread) {
              const std::int64_t image = unit / blocks, group = image % shape.groups;
              const std::int64_t row = unit % blocks * row_step;
              T* staged = memory + thread * buffers.stride(stage.size());
              stage.read(x + image * shape.in_channels * shape.in_pixels(), shape.in_channels, row,
                         staged);
              direct_kernels<T>().forward(
                  {staged, stage.row_step(), stage.offsets(), shape.patch(), shape.kernel_height,
                   shape.kernel_width, stage.tap_row_step(),
                   weight + group * shape.out_channels * shape.patch(),
                   bias != nullptr ? bias + group * shape.out_channels : nullptr,
                   shape.out_channels, std::min(row_step, shape.out_height - row), shape.out_width,
                   y + image * shape.out_channels * shape.out_pixels() + row * shape.out_width,
                   shape.out_pixels()});
            });
}

template <class T>
void direct_weight_gradient(const Shape& shape, const T* x, const T* y, T* weight) {
  const std::int64_t row_step = rows_together<T>(shape);
  const Stage<T> stage(shape, shape.in_channels, row_step, idle_lanes<T>(shape));
  const std::int64_t lanes = direct_kernels<T>().lanes;
  const std::int64_t per_group = shape.out_channels * shape.patch();
  const std::int64_t numel = shape.groups * per_group;
  // Each run of images has separate sums, which are added at the end. Neighbouring groups stay
  // together, because their planes are adjacent in memory.
  const std::int64_t runs = std::clamp<std::int64_t>(weight_units / shape.groups, 1,
                                                     std::max<std::int64_t>(1, shape.batch));
  const std::int64_t group_step = std::clamp<std::int64_t>(
      shape.groups / weight_units, 1, std::max<std::int64_t>(1, most_sums / per_group));
  const std::int64_t group_blocks = divide_up(shape.groups, group_step);
  const int threads = threads_of(shape);
  Buffers<T> buffers;
  const std::int64_t sums_size = group_step * per_group * lanes;
  const std::int64_t partial_start = buffers.add(runs * numel);
  const std::int64_t sums_start = buffers.add(sums_size, threads);
  const std::int64_t stage_start = buffers.add(stage.size(), threads);
  T* memory = buffers.reserve();
  T* partial = memory + partial_start;
  run_units(threads, runs * group_blocks, [&](std::int64_t unit, std::int64_t thread) {
    const std::int64_t run = unit / group_blocks, first = unit % group_blocks * group_step;
    const std::int64_t groups = std::min(group_step, shape.groups - first);
    T* sums = memory + sums_start + thread * buffers.stride(sums_size);
    T* staged = memory + stage_start + thread * buffers.stride(stage.size());
    std::fill(sums, sums + groups * per_group * lanes, T(0));
    for (std::int64_t n = shape.batch * run / runs; n < shape.batch * (run + 1) / runs; ++n) {
      for (std::int64_t g = 0; g < groups; ++g) {
        const std::int64_t image = n * shape.groups + first + g;
        for (std::int64_t row = 0; row < shape.out_height; row += row_step) {
          stage.read(x + image * shape.in_channels * shape.in_pixels(), shape.in_channels, row,
                     staged);
          direct_kernels<T>().weight_gradient(
              {staged, stage.row_step(), stage.offsets(), shape.patch(),
               y + image * shape.out_channels * shape.out_pixels() + row * shape.out_width,
               shape.out_channels, std::min(row_step, shape.out_height - row), shape.out_width,
               shape.out_pixels(), sums + g * per_group * lanes});
        }
      }
    }
    T* to = partial + run * numel + first * per_group;
    for (std::int64_t i = 0; i < groups * per_group; ++i) {
      double sum = 0;
      for (std::int64_t lane = 0; lane < lanes; ++lane) {
        sum += static_cast<double>(sums[i * lanes + lane]);
      }
      to[i] = static_cast<T>(sum);
    }
  });
  for (std::int64_t i = 0; i < numel; ++i) {
    double sum = 0;
    for (std::int64_t run = 0; run < runs; ++run) {
      sum += static_cast<double>(partial[run * numel + i]);
    }
    weight[i] = static_cast<T>(sum);
  }
}

#define EXTENSOR_INSTANTIATE(T)                                                 \
  template void direct_forward(const Shape&, const T*, const T*, const T*, T*); \
  template void direct_weight_gradient(const Shape&, const T*, const T*, T*);
EXTENSOR_INSTANTIATE(float)
EXTENSOR_INSTANTIATE(double)
#undef EXTENSOR_INSTANTIATE

}  // namespace extensor::cpu::conv
