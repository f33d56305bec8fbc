// One filter of one channel for each channel. A pixel of a result is a sum, over the taps that lie
// inside the image, of pixels times the taps' weights, channel by channel.
#include <algorithm>
#include <vector>

#include "backend/cpu/convolution/channels_last.h"
#include "backend/cpu/convolution/direct_kernels.h"

namespace extensor::cpu::conv::channels_last {

namespace {

constexpr std::int64_t weight_units = 64;  // units with separate sums, enough to keep threads busy

// Reorders [channels, taps] to [taps, channels].
template <class T>
std::vector<T> weights_with_channels_last(const Shape& shape, const T* weight) {
  const std::int64_t taps = shape.taps();
  std::vector<T> moved(static_cast<std::size_t>(taps * shape.groups));
  for (std::int64_t t = 0; t < taps; ++t) {
    for (std::int64_t c = 0; c < shape.groups; ++c) {
      moved[static_cast<std::size_t>(t * shape.groups + c)] = weight[c * taps + t];
    }
  }
  return moved;
}

// The taps of one axis that lie inside the image, and their positions.
struct Meeting {
  std::int64_t tap, position;
};
using Meetings = std::vector<Meeting>;

// For every position of y's axis or, with `inverse`, of x's.
std::vector<Meetings> meetings_of(std::int64_t in, std::int64_t out, std::int64_t kernel,
                                  std::int64_t stride, std::int64_t padding, std::int64_t dilation,
                                  bool inverse) {
  std::vector<Meetings> of(static_cast<std::size_t>(inverse ? in : out));
  for (std::int64_t i = 0; i < out; ++i) {
    for (std::int64_t t = 0; t < kernel; ++t) {
      const std::int64_t position = i * stride + t * dilation - padding;
      if (position < 0 || position >= in) continue;
      of[static_cast<std::size_t>(inverse ? position : i)].push_back({t, inverse ? i : position});
    }
  }
  return of;
}
std::vector<Meetings> rows_of(const Shape& s, bool inverse) {
  return meetings_of(s.in_height, s.out_height, s.kernel_height, s.stride_height, s.padding_height,
                     s.dilation_height, inverse);
}
std::vector<Meetings> columns_of(const Shape& s, bool inverse) {
  return meetings_of(s.in_width, s.out_width, s.kernel_width, s.stride_width, s.padding_width,
                     s.dilation_width, inverse);
}

// Each pixel of `to` is the sum over its taps in `from`, whose rows have `from_width` pixels.
template <class T>
void sum_meetings(const Shape& shape, const T* weight, const T* bias,
                  const std::vector<Meetings>& rows, const std::vector<Meetings>& columns,
                  const T* from, std::int64_t from_height, std::int64_t from_width, T* to) {
  const DirectKernels<T>& kernels = direct_kernels<T>();
  const std::vector<T> moved = weights_with_channels_last(shape, weight);
  const std::int64_t n = shape.groups, height = std::ssize(rows), width = std::ssize(columns);
  const int threads = threads_of(shape);
  const auto taps = static_cast<std::size_t>(shape.taps());
  // Pointers for each thread, allocated before the threads start.
  std::vector<const T*> pixels(static_cast<std::size_t>(threads) * taps), weights(pixels.size());
  run_units(threads, shape.batch * height, [&](std::int64_t unit, std::int64_t thread) {
    const T** pixel = pixels.data() + static_cast<std::size_t>(thread) * taps;
    const T** tap_weight = weights.data() + static_cast<std::size_t>(thread) * taps;
    const T* image = from + unit / height * from_height * from_width * n;
    T* out = to + unit * width * n;
    for (std::int64_t j = 0; j < width; ++j, out += n) {
      std::int64_t count = 0;
      for (const Meeting& row : rows[static_cast<std::size_t>(unit % height)]) {
        for (const Meeting& column : columns[static_cast<std::size_t>(j)]) {
          pixel[count] = image + (row.position * from_width + column.position) * n;
          tap_weight[count] = moved.data() + (row.tap * shape.kernel_width + column.tap) * n;
          ++count;
        }
      }
      kernels.weighted_sum(pixel, tap_weight, count, bias, out, n);
    }
  });
}

}  // namespace

bool depthwise_suits(const Shape& shape) {
  constexpr std::int64_t most_taps = 1024;
  return shape.in_channels == 1 && shape.out_channels == 1 && shape.groups >= 4 &&
         shape.taps() <= most_taps;
}

template <class T>
void depthwise_forward(const Shape& shape, const T* x, const T* weight, const T* bias, T* y) {
  sum_meetings(shape, weight, bias, rows_of(shape, false), columns_of(shape, false), x,
               shape.in_height, shape.in_width, y);
}

template <class T>
void depthwise_input_gradient(const Shape& shape, const T* weight, const T* y, const T* bias,
                              T* x) {
  sum_meetings(shape, weight, bias, rows_of(shape, true), columns_of(shape, true), y,
               shape.out_height, shape.out_width, x);
}

// Sums of a row of y are added to those of a few rows, and these to the total.
template <class T>
void depthwise_weight_gradient(const Shape& shape, const T* x, const T* y, T* weight) {
  const DirectKernels<T>& kernels = direct_kernels<T>();
  const std::int64_t n = shape.groups, taps = shape.taps(), sums_size = taps * n;
  const std::int64_t rows = shape.batch * shape.out_height;
  const std::int64_t row_step = std::max<std::int64_t>(1, divide_up(rows, weight_units));
  const std::int64_t units = divide_up(rows, row_step);
  const std::vector<Meetings> of_rows = rows_of(shape, false),
                              of_columns = columns_of(shape, false);
  const int threads = threads_of(shape);
  Buffers<T> buffers;
  const std::int64_t sums_start = buffers.add(sums_size, units);
  const std::int64_t row_start = buffers.add(sums_size, threads);
  T* memory = buffers.reserve();
  const auto sums_of = [&](std::int64_t unit) {
    return memory + sums_start + unit * buffers.stride(sums_size);
  };
  run_units(threads, units, [&](std::int64_t unit, std::int64_t thread) {
    T* sums = sums_of(unit);
    T* of_row = memory + row_start + thread * buffers.stride(sums_size);
    std::fill_n(sums, sums_size, T(0));
    for (std::int64_t i = unit * row_step; i < std::min(rows, (unit + 1) * row_step); ++i) {
      std::fill_n(of_row, sums_size, T(0));
      const T* image = x + i / shape.out_height * shape.in_pixels() * n;
      const T* g = y + i * shape.out_width * n;
      for (std::int64_t j = 0; j < shape.out_width; ++j, g += n) {
        for (const Meeting& row : of_rows[static_cast<std::size_t>(i % shape.out_height)]) {
          for (const Meeting& column : of_columns[static_cast<std::size_t>(j)]) {
            kernels.add_products(image + (row.position * shape.in_width + column.position) * n, g,
                                 of_row + (row.tap * shape.kernel_width + column.tap) * n, n);
          }
        }
      }
      for (std::int64_t k = 0; k < sums_size; ++k) sums[k] += of_row[k];
    }
  });
  for (std::int64_t t = 0; t < taps; ++t) {
    for (std::int64_t c = 0; c < n; ++c) {
      double sum = 0;
      for (std::int64_t unit = 0; unit < units; ++unit) {
        sum += static_cast<double>(sums_of(unit)[t * n + c]);
      }
      weight[c * taps + t] = static_cast<T>(sum);
    }
  }
}

#define EXTENSOR_INSTANTIATE(T)                                                           \
  template void depthwise_forward(const Shape&, const T*, const T*, const T*, T*);        \
  template void depthwise_input_gradient(const Shape&, const T*, const T*, const T*, T*); \
  template void depthwise_weight_gradient(const Shape&, const T*, const T*, T*);
EXTENSOR_INSTANTIATE(float)
EXTENSOR_INSTANTIATE(double)
#undef EXTENSOR_INSTANTIATE

}  // namespace extensor::cpu::conv::channels_last
