// Pixel conversions for batches of images. They run on the calling thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace extensor::data {

struct PixelKernels {
  // Divides every byte by 255.
  void (*parts)(const std::uint8_t* from, float* to, std::size_t count);
  // (pixel − less) / by, in place.
  void (*normalize)(float* pixels, std::size_t count, float less, float by);
};

const PixelKernels& pixel_kernels();

}  // namespace extensor::data
