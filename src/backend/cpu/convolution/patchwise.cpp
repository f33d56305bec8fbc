// Windows that neither overlap nor leave gaps, as in patch embeddings and in the gradient of
// upsampling: each element of x is in one patch, so the matrix of patches is x with its axes
// permuted, and the rest is a convolution with 1 × 1 filters.
#include <vector>

#include "backend/cpu/convolution/rearrange.h"
#include "backend/cpu/convolution/routes.h"

namespace extensor::cpu::conv {

namespace {

// The convolution of the patches: their elements are the channels of an image as large as y.
Shape pointwise_shape(const Shape& shape) {
  Shape result = shape;
  result.in_channels = shape.patch();
  result.in_height = shape.out_height;
  result.in_width = shape.out_width;
  result.kernel_height = result.kernel_width = 1;
  result.stride_height = result.stride_width = 1;
  return result;
}

// The elements of x and of its patches as [planes, out_height, kernel_height, out_width,
// kernel_width].
struct Layouts {
  extensor::Shape shape;
  Strides image, patches;

  explicit Layouts(const Shape& s)
      : shape{s.batch * s.groups * s.in_channels, s.out_height, s.kernel_height, s.out_width,
              s.kernel_width},
        image{s.in_pixels(), s.kernel_height * s.in_width, s.in_width, s.kernel_width, 1},
        patches{s.taps() * s.out_pixels(), s.out_width, s.kernel_width * s.out_pixels(), 1,
                s.out_pixels()} {}
};

template <class T>
T* patches_memory(const Shape& shape, StoragePointer& memory) {
  const std::int64_t numel = shape.batch * shape.groups * shape.patch() * shape.out_pixels();
  memory = detail::allocate_host(static_cast<std::size_t>(numel) * sizeof(T), "convolution");
  return static_cast<T*>(memory->data);
}

template <class T>
const T* read_patches(const Shape& shape, const T* x, StoragePointer& memory) {
  const Layouts layouts(shape);
  T* patches = patches_memory<T>(shape, memory);
  rearrange(layouts.shape, x, layouts.image, patches, layouts.patches);
  return patches;
}

}  // namespace

bool patchwise_suits(const Shape& shape) {
  return shape.taps() > 1 && shape.patch() > 1 && shape.dilation_height == 1 &&
         shape.dilation_width == 1 && shape.padding_height == 0 && shape.padding_width == 0 &&
         shape.stride_height == shape.kernel_height && shape.stride_width == shape.kernel_width &&
         shape.in_height == shape.out_height * shape.kernel_height &&
         shape.in_width == shape.out_width * shape.kernel_width;
}
bool patchwise_suits_weights(const Shape& shape) {
  return patchwise_suits(shape) && pointwise_suits_weights(pointwise_shape(shape));
}

template <class T>
void patchwise_forward(const Shape& shape, const T* x, const T* weight, const T* bias, T* y) {
  StoragePointer memory;
  const Shape pointwise = pointwise_shape(shape);
  pointwise_forward(pointwise, read_patches(shape, x, memory), filters_of(pointwise, weight), bias,
                    y);
}

template <class T>
void patchwise_weight_gradient(const Shape& shape, const T* x, const T* y, T* weight) {
  StoragePointer memory;
  pointwise_weight_gradient(pointwise_shape(shape), read_patches(shape, x, memory), y, weight);
}

template <class T>
void patchwise_input_gradient(const Shape& shape, const T* weight, const T* y, const T* bias,
                              T* x) {
  const Shape pointwise = pointwise_shape(shape);
  std::vector<T> biases;  // of every element of a patch
  for (std::int64_t c = 0; bias != nullptr && c < shape.groups * shape.in_channels; ++c) {
    biases.insert(biases.end(), static_cast<std::size_t>(shape.taps()), bias[c]);
  }
  StoragePointer memory;
  T* patches = patches_memory<T>(shape, memory);
  pointwise_forward(turned(pointwise), y, turned_in_place(pointwise, weight),
                    bias != nullptr ? biases.data() : nullptr, patches);
  const Layouts layouts(shape);
  rearrange(layouts.shape, patches, layouts.patches, x, layouts.image);
}

#define EXTENSOR_INSTANTIATE(T)                                                    \
  template void patchwise_forward(const Shape&, const T*, const T*, const T*, T*); \
  template void patchwise_weight_gradient(const Shape&, const T*, const T*, T*);   \
  template void patchwise_input_gradient(const Shape&, const T*, const T*, const T*, T*);
EXTENSOR_INSTANTIATE(float)
EXTENSOR_INSTANTIATE(double)
#undef EXTENSOR_INSTANTIATE

}  // namespace extensor::cpu::conv
