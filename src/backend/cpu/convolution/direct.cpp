// Few filters: images are copied with their padding, then read in place tap by tap.
#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/cpu/convolution/direct_kernels.h"
#include "backend/cpu/convolution/patches.h"
#include "backend/cpu/convolution/routes.h"

namespace extensor::cpu::conv {

namespace {

constexpr std::int64_t most_staged = 64 * 1024;  // elements of an image that stay in cache
constexpr std::int64_t few_filters = 16;
constexpr std::int64_t most_sums = 4096;   // weights whose gradients are summed in vectors
constexpr std::int64_t weight_units = 32;  // as many as keep every thread busy

// The part of an image that a run of rows of y reads, with the padding written out. Columns are
// dealt out by the stride, so that neighbours in y read neighbours here.
template <class T>
struct Stage {
  const Shape& shape;
  std::int64_t row_step;    // rows of y in one stage
  std::int64_t phase_size;  // columns of one residue of the stride
  std::int64_t row_size, height;
  std::vector<std::int64_t> offsets;

  explicit Stage(const Shape& s) : shape(s) {
    const std::int64_t width = (s.out_width - 1) * s.stride_width + extent_width();
    phase_size = round_up(divide_up(width, s.stride_width) + 2 * direct_kernels<T>().lanes, 16);
    row_size = phase_size * s.stride_width;
    const std::int64_t rows_that_fit =
        std::max<std::int64_t>(1, most_staged / (row_size * s.in_channels) - extent_height());
    row_step = even_piece(s.out_height, divide_up(rows_that_fit, s.stride_height), 1);
    height = (row_step - 1) * s.stride_height + extent_height();
    offsets.resize(static_cast<std::size_t>(s.patch()));
    Tap tap(s, 0);
    for (std::int64_t& offset : offsets) {
      const std::int64_t column = tap.column * s.dilation_width;
      offset = (tap.channel * height + tap.row * s.dilation_height) * row_size +
               column % s.stride_width * phase_size + column / s.stride_width;
      tap.advance(s);
    }
  }

  std::int64_t extent_width() const { return shape.dilation_width * (shape.kernel_width - 1) + 1; }
  std::int64_t extent_height() const {
    return shape.dilation_height * (shape.kernel_height - 1) + 1;
  }
  std::int64_t size() const { return shape.in_channels * height * row_size; }
  std::int64_t blocks() const { return divide_up(shape.out_height, row_step); }

  // What rows first_row … of y read of the image x [in_channels, height, width].
  void read(const T* x, std::int64_t first_row, T* to) const {
    const std::int64_t top = first_row * shape.stride_height - shape.padding_height;
    for (std::int64_t c = 0; c < shape.in_channels; ++c) {
      for (std::int64_t i = 0; i < height; ++i, to += row_size) {
        const std::int64_t row = top + i;
        if (row < 0 || row >= shape.in_height) {
          std::memset(to, 0, static_cast<std::size_t>(row_size) * sizeof(T));
          continue;
        }
        read_row(x + (c * shape.in_height + row) * shape.in_width, to);
      }
    }
  }

 private:
  void read_row(const T* row, T* to) const {
    const std::int64_t stride = shape.stride_width;
    for (std::int64_t phase = 0; phase < stride; ++phase, to += phase_size) {
      const Span inside =
          positions_inside(phase_size, stride, phase - shape.padding_width, shape.in_width);
      std::fill(to, to + inside.begin, T(0));
      const std::int64_t from = phase - shape.padding_width;
      if (stride == 1) {
        std::memcpy(to + inside.begin, row + (from + inside.begin),
                    static_cast<std::size_t>(inside.end - inside.begin) * sizeof(T));
      } else {
        for (std::int64_t j = inside.begin; j < inside.end; ++j) to[j] = row[from + j * stride];
      }
      std::fill(to + inside.end, to + phase_size, T(0));
    }
  }
};

// Neither padding nor dilation nor stride make the staged image much larger than it is.
bool is_compact(const Shape& shape) {
  const auto compact = [](std::int64_t out, std::int64_t stride, std::int64_t kernel,
                          std::int64_t dilation, std::int64_t in) {
    constexpr std::int64_t far = 256;
    return stride <= far && dilation <= far && kernel <= far && out <= 2 * in + far &&
           (out - 1) * stride + dilation * (kernel - 1) <= 2 * in + far;
  };
  return compact(shape.out_height, shape.stride_height, shape.kernel_height, shape.dilation_height,
                 shape.in_height) &&
         compact(shape.out_width, shape.stride_width, shape.kernel_width, shape.dilation_width,
                 shape.in_width);
}

}  // namespace

bool direct_suits(const Shape& shape) {
  if (shape.out_channels > few_filters || shape.patch() == 0 || !is_compact(shape)) return false;
  // One row of a stage at least has to fit.
  return shape.in_channels * (2 * shape.in_width + 1024) <= most_staged / 4;
}

bool direct_suits_weights(const Shape& shape) {
  return direct_suits(shape) && shape.out_channels * shape.patch() <= most_sums;
}

template <class T>
void direct_forward(const Shape& shape, const T* x, const T* weight, const T* bias, T* y) {
  const Stage<T> stage(shape);
  const std::int64_t blocks = stage.blocks();
  const int threads = threads_of(shape);
  Buffers<T> buffers;
  buffers.add(stage.size(), threads);
  T* memory = buffers.reserve();
  run_units(
      threads, shape.batch * shape.groups * blocks, [&](std::int64_t unit, std::int64_t thread) {
        const std::int64_t image = unit / blocks, group = image % shape.groups;
        const std::int64_t row = unit % blocks * stage.row_step;
        T* staged = memory + thread * buffers.stride(stage.size());
        stage.read(x + image * shape.in_channels * shape.in_pixels(), row, staged);
        direct_kernels<T>().forward(
            {staged, shape.stride_height * stage.row_size, stage.offsets.data(), shape.patch(),
             weight + group * shape.out_channels * shape.patch(),
             bias != nullptr ? bias + group * shape.out_channels : nullptr, shape.out_channels,
             std::min(stage.row_step, shape.out_height - row), shape.out_width,
             y + image * shape.out_channels * shape.out_pixels() + row * shape.out_width,
             shape.out_pixels()});
      });
}

template <class T>
void direct_weight_gradient(const Shape& shape, const T* x, const T* y, T* weight) {
  const Stage<T> stage(shape);
  const std::int64_t lanes = direct_kernels<T>().lanes;
  const std::int64_t per_group = shape.out_channels * shape.patch();
  const std::int64_t numel = shape.groups * per_group;
  // Runs of images with sums of their own, added up in the end; neighbouring groups together, for
  // their planes follow each other in memory.
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
        for (std::int64_t row = 0; row < shape.out_height; row += stage.row_step) {
          stage.read(x + image * shape.in_channels * shape.in_pixels(), row, staged);
          direct_kernels<T>().weight_gradient(
              {staged, shape.stride_height * stage.row_size, stage.offsets.data(), shape.patch(),
               y + image * shape.out_channels * shape.out_pixels() + row * shape.out_width,
               shape.out_channels, std::min(stage.row_step, shape.out_height - row),
               shape.out_width, shape.out_pixels(), sums + g * per_group * lanes});
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
