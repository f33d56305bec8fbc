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
  // Splits `count` interleaved pixels of three bytes into planes.
  void (*split)(const std::uint8_t* from, std::uint8_t* first, std::uint8_t* second,
                std::uint8_t* third, std::size_t count);
};

const PixelKernels& pixel_kernels();

}  // namespace extensor::data
