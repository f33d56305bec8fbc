// 3 × 3 filters with dilation, at stride 1. Elements of y whose positions leave the same remainder
// modulo the dilation, a phase, read elements of x of one phase: each phase is a convolution
// without dilation. The phases become images of a larger batch, which Winograd's algorithm
// convolves.
#include <algorithm>
#include <cstdint>

#include "backend/cpu/convolution/direct_kernels.h"
#include "backend/cpu/convolution/patches.h"
#include "backend/cpu/convolution/routes.h"
#include "core/allocator.h"

namespace extensor::cpu::conv {

namespace {

// The convolution of all phases. Their padding is explicit in x.
Shape shape_of_phases(const Shape& shape) {
  Shape result = shape;
  result.batch = shape.batch * shape.dilation_height * shape.dilation_width;
  result.out_height = divide_up(shape.out_height, shape.dilation_height);
  result.out_width = divide_up(shape.out_width, shape.dilation_width);
  result.in_height = result.out_height + 2;
  result.in_width = result.out_width + 2;
  result.padding_height = result.padding_width = 0;
  result.dilation_height = result.dilation_width = 1;
  return result;
}

// Images of the phases of images, each `height` × `width`: element (i, j) of phase (a, b) is
// (dilation · i + a − padding, …) of the image, or 0 outside it.
template <class T>
struct PhaseImages {
  std::int64_t batch, channels, image_height, image_width;
  std::int64_t height, width, padding_height, padding_width, dilation_height, dilation_width;
  StoragePointer memory;

  static PhaseImages of_x(const Shape& shape) {
    const Shape phases = shape_of_phases(shape);
    return {
        shape,           shape.in_channels,    shape.in_height,    shape.in_width, phases.in_height,
        phases.in_width, shape.padding_height, shape.padding_width};
  }
  static PhaseImages of_y(const Shape& shape) {
    const Shape phases = shape_of_phases(shape);
    return {shape,
            shape.out_channels,
            shape.out_height,
            shape.out_width,
            phases.out_height,
            phases.out_width,
            0,
            0};
  }

  T* data() const { return static_cast<T*>(memory->data); }
  // The plane of a channel and phase.
  T* plane(std::int64_t image, std::int64_t a, std::int64_t b, std::int64_t channel) const {
    const std::int64_t phase = (image * dilation_height + a) * dilation_width + b;
    return data() + (phase * channels + channel) * height * width;
  }

  void read(const T* images) const {
    for_planes([&](std::int64_t n, std::int64_t c, T* copied) {
      const T* from = images + (n * channels + c) * image_height * image_width;
      for (std::int64_t a = 0; a < dilation_height; ++a) {
        for (std::int64_t b = 0; b < dilation_width; ++b) {
          read_phase(from, a, b, copied);
          std::copy_n(copied, height * width, plane(n, a, b, c));
        }
      }
    });
  }

  void write(T* images) const {
    for_planes([&](std::int64_t n, std::int64_t c, T*) {
      T* to = images + (n * channels + c) * image_height * image_width;
      for (std::int64_t a = 0; a < std::min(dilation_height, image_height); ++a) {
        direct_kernels<T>().interleave(
            {plane(n, a, 0, c), channels * height * width, dilation_width,
             divide_up(image_height - a, dilation_height), width, to + a * image_width,
             dilation_height * image_width, image_width});
      }
    });
  }

 private:
  PhaseImages(const Shape& shape, std::int64_t channels_of_group, std::int64_t h, std::int64_t w,
              std::int64_t phase_height, std::int64_t phase_width, std::int64_t pad_height,
              std::int64_t pad_width)
      : batch(shape.batch),
        channels(shape.groups * channels_of_group),
        image_height(h),
        image_width(w),
        height(phase_height),
        width(phase_width),
        padding_height(pad_height),
        padding_width(pad_width),
        dilation_height(shape.dilation_height),
        dilation_width(shape.dilation_width),
        memory(detail::allocate_host(
            static_cast<std::size_t>(
                batch * dilation_height * dilation_width * channels * height * width + slack) *
                sizeof(T),
            "convolution")) {}

  static constexpr std::int64_t slack = 64;  // kernels read and write whole vectors

  // Calls body(image, channel, memory for one phase).
  template <class Body>
  void for_planes(const Body& body) const {
    const std::int64_t size = height * width + slack;
    const int threads =
        detail::threads_for(batch * channels, divide_up(16 * 1024, image_height * image_width));
    Buffers<T> buffers;
    buffers.add(size, threads);
    T* copied = buffers.reserve();
    run_units(threads, batch * channels, [&](std::int64_t unit, std::int64_t thread) {
      body(unit / channels, unit % channels, copied + thread * buffers.stride(size));
    });
  }

  void read_phase(const T* from, std::int64_t a, std::int64_t b, T* to) const {
    const std::int64_t top = a - padding_height, left = b - padding_width;
    const Span rows = positions_inside(height, dilation_height, top, image_height);
    const Span columns = positions_inside(width, dilation_width, left, image_width);
    const RowPhase phase{left + columns.begin * dilation_width, columns.begin,
                         columns.end - columns.begin};
    std::fill_n(to, rows.begin * width, T(0));
    if (rows.begin < rows.end) {
      direct_kernels<T>().copy_rows({from + (top + rows.begin * dilation_height) * image_width,
                                     dilation_height * image_width, rows.end - rows.begin,
                                     dilation_width, &phase, 1, width, to + rows.begin * width});
    }
    std::fill_n(to + rows.end * width, (height - rows.end) * width, T(0));
  }
};

}  // namespace

bool dilated_suits(const Shape& shape) {
  return shape.kernel_height == 3 && shape.kernel_width == 3 && shape.stride_height == 1 &&
         shape.stride_width == 1 && shape.dilation_height * shape.dilation_width > 1 &&
         shape.dilation_height <= shape.out_height && shape.dilation_width <= shape.out_width &&
         winograd_suits(shape_of_phases(shape));
}
template <class T>
bool dilated_forward(const Shape& shape, const T* x, const Filters<T>& filters, const T* bias,
                     T* y) {
  const auto from = PhaseImages<T>::of_x(shape), to = PhaseImages<T>::of_y(shape);
  from.read(x);
  if (!winograd_forward(shape_of_phases(shape), from.data(), filters, bias, to.data())) {
    return false;
  }
  to.write(y);
  return true;
}

#define EXTENSOR_INSTANTIATE(T) \
  template bool dilated_forward(const Shape&, const T*, const Filters<T>&, const T*, T*);
EXTENSOR_INSTANTIATE(float)
EXTENSOR_INSTANTIATE(double)
#undef EXTENSOR_INSTANTIATE

}  // namespace extensor::cpu::conv
