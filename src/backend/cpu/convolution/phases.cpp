// The gradient of x for strides beyond 1. Elements of x whose positions leave the same remainder
// modulo the stride, a phase, meet the same taps: the gradient of a phase is a convolution of y's
// gradient, of stride 1, with these taps in reverse order. The phases are computed one after
// another and interleaved.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "backend/cpu/convolution/direct_kernels.h"
#include "backend/cpu/convolution/routes.h"
#include "core/allocator.h"

namespace extensor::cpu::conv {

namespace {

constexpr std::int64_t elements_together = 512 * 1024;  // of phases, so that they stay in cache

// One axis of a phase: taps first_tap, first_tap + tap_step, … of the filter, and the axis of the
// convolution that they belong to.
struct PhaseAxis {
  std::int64_t size, taps, first_tap, tap_step, padding, dilation;
};
PhaseAxis phase_axis(std::int64_t phase, std::int64_t in, std::int64_t kernel, std::int64_t stride,
                     std::int64_t padding, std::int64_t dilation) {
  const std::int64_t common = std::gcd(dilation, stride);
  PhaseAxis axis{divide_up(in - phase, stride), 0, 0, stride / common, 0, dilation / common};
  const std::int64_t most = std::min(kernel, axis.tap_step);
  const auto position = [&] { return phase + padding - axis.first_tap * dilation; };
  while (axis.first_tap < most && position() % stride != 0) ++axis.first_tap;
  if (axis.first_tap == most) return axis;
  axis.taps = divide_up(kernel - axis.first_tap, axis.tap_step);
  axis.padding = (axis.taps - 1) * axis.dilation - position() / stride;
  return axis;
}

// The taps of a phase, in reverse order, with input and output channels exchanged.
template <class T>
void select_filters(const Shape& shape, const PhaseAxis& rows, const PhaseAxis& columns,
                    const T* weight, T* to) {
  constexpr std::int64_t step = 16;  // filters read side by side, so that they are written in runs
  const std::int64_t outs = shape.out_channels, ins = shape.in_channels;
  std::vector<std::int64_t> taps;
  for (std::int64_t r = rows.taps - 1; r >= 0; --r) {
    for (std::int64_t s = columns.taps - 1; s >= 0; --s) {
      taps.push_back((rows.first_tap + r * rows.tap_step) * shape.kernel_width + columns.first_tap +
                     s * columns.tap_step);
    }
  }
  const std::int64_t blocks = divide_up(outs, step);
  detail::parallel_for(
      shape.groups * blocks, divide_up(4 * 1024, ins * std::ssize(taps)),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t block = begin; block < end; ++block) {
          const std::int64_t group = block / blocks, first = block % blocks * step;
          for (std::int64_t c = 0; c < ins; ++c) {
            T* selected = to + ((group * ins + c) * outs + first) * std::ssize(taps);
            for (std::int64_t o = first; o < std::min(outs, first + step); ++o) {
              const T* filter = weight + ((group * outs + o) * ins + c) * shape.taps();
              for (std::int64_t tap : taps) *selected++ = filter[tap];
            }
          }
        }
      });
}

}  // namespace

bool phases_suit(const Shape& shape) {
  constexpr std::int64_t few_channels = 8;
  // Steps beyond the image have no second row or column, and their products may overflow.
  const bool is_short =
      shape.stride_height <= shape.in_height && shape.stride_width <= shape.in_width;
  return is_short && shape.taps() > 1 &&
         (shape.in_channels > few_channels || shape.out_channels <= 2 * few_channels);
}

template <class T>
void phased_input_gradient(const Shape& shape, const T* weight, const T* y, const T* bias, T* x) {
  const std::int64_t step = shape.stride_width, channels = shape.groups * shape.in_channels;
  const std::int64_t row_phases = std::min(shape.stride_height, shape.in_height);
  const std::int64_t column_phases = std::min(step, shape.in_width);
  // Sizes of phase 0, which is the largest.
  const std::int64_t width = divide_up(shape.in_width, step);
  const std::int64_t height = divide_up(shape.in_height, shape.stride_height);
  const std::int64_t image_size = channels * height * width;
  const std::int64_t images =
      std::clamp<std::int64_t>(elements_together / (image_size * column_phases), 1, shape.batch);
  const std::int64_t phase_size = images * image_size;
  const StoragePointer planes_memory = detail::allocate_host(
      static_cast<std::size_t>(column_phases * phase_size + 64) * sizeof(T), "convolution");
  const StoragePointer filters_memory = detail::allocate_host(
      static_cast<std::size_t>(channels * shape.out_channels * shape.taps()) * sizeof(T),
      "convolution");
  T* planes = static_cast<T*>(planes_memory->data);

  // The filters of all phases, one after another.
  struct Phase {
    PhaseAxis rows, columns;
    const T* filters;
  };
  std::vector<Phase> phases;
  T* filters = static_cast<T*>(filters_memory->data);
  for (std::int64_t a = 0; a < row_phases; ++a) {
    for (std::int64_t b = 0; b < column_phases; ++b) {
      const PhaseAxis rows =
          phase_axis(a, shape.in_height, shape.kernel_height, shape.stride_height,
                     shape.padding_height, shape.dilation_height);
      const PhaseAxis columns = phase_axis(b, shape.in_width, shape.kernel_width, step,
                                           shape.padding_width, shape.dilation_width);
      phases.push_back({rows, columns, filters});
      if (rows.taps * columns.taps == 0) continue;
      select_filters(shape, rows, columns, weight, filters);
      filters += channels * shape.out_channels * rows.taps * columns.taps;
    }
  }

  for (std::int64_t first = 0; first < shape.batch; first += images) {
    const std::int64_t count = std::min(images, shape.batch - first);
    const T* from = y + first * shape.groups * shape.out_channels * shape.out_pixels();
    for (std::int64_t a = 0; a < row_phases; ++a) {
      for (std::int64_t b = 0; b < column_phases; ++b) {
        const Phase& phase = phases[static_cast<std::size_t>(a * column_phases + b)];
        Shape part = turned(shape);
        part.batch = count;
        // The last column of a shorter phase exists as well, but is not used.
        part.out_height = phase.rows.size;
        part.out_width = width;
        part.kernel_height = phase.rows.taps;
        part.kernel_width = phase.columns.taps;
        part.stride_height = part.stride_width = 1;
        part.padding_height = phase.rows.padding;
        part.padding_width = phase.columns.padding;
        part.dilation_height = phase.rows.dilation;
        part.dilation_width = phase.columns.dilation;
        T* plane = planes + b * phase_size;
        if (part.taps() > 0) {
          forward(part, from, phase.filters, bias, plane);
          continue;
        }
        for (std::int64_t c = 0; c < count * channels; ++c, plane += part.out_pixels()) {
          std::fill_n(plane, part.out_pixels(), bias != nullptr ? bias[c % channels] : T(0));
        }
      }
      const std::int64_t rows = phases[static_cast<std::size_t>(a * column_phases)].rows.size;
      detail::parallel_for(
          count * channels, divide_up(32 * 1024, rows * shape.in_width),
          [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t c = begin; c < end; ++c) {
              T* to = x + (first * channels + c) * shape.in_pixels() + a * shape.in_width;
              direct_kernels<T>().interleave({planes + c * rows * width, phase_size, column_phases,
                                              rows, width, to, shape.stride_height * shape.in_width,
                                              shape.in_width});
            }
          });
    }
  }
}

#define EXTENSOR_INSTANTIATE(T) \
  template void phased_input_gradient(const Shape&, const T*, const T*, const T*, T*);
EXTENSOR_INSTANTIATE(float)
EXTENSOR_INSTANTIATE(double)
#undef EXTENSOR_INSTANTIATE

}  // namespace extensor::cpu::conv
