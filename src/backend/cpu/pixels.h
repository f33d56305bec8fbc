// Pictures on their way into a batch, on the thread that asks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace extensor::cpu {

struct PixelKernels {
  // Every byte divided by 255.
  void (*parts)(const std::uint8_t* from, float* to, std::size_t count);
  // (pixel − less) / by, in place.
  void (*normalize)(float* pixels, std::size_t count, float less, float by);
};

const PixelKernels& pixel_kernels();

}  // namespace extensor::cpu
