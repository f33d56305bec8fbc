// Chooses the algorithm of a convolution.
#include "backend/cpu/convolution/convolution.h"

#include <vector>

#include "backend/cpu/convolution/channels_last.h"
#include "backend/cpu/convolution/rearrange.h"
#include "backend/cpu/convolution/routes.h"

namespace extensor::cpu {

namespace conv {

// By Winograd's algorithm. Returns false if it does not suit the shape or the values.
template <class T>
bool fewer_products(const Shape& shape, const T* x, const Filters<T>& filters, const T* bias,
                    T* y) {
  return (winograd_suits(shape) && winograd_forward(shape, x, filters, bias, y)) ||
         (dilated_suits(shape) && dilated_forward(shape, x, filters, bias, y));
}

template <class T>
void forward(const Shape& shape, const T* x, const T* weight, const T* bias, T* y) {
  if (pointwise_suits(shape)) {
    return pointwise_forward(shape, x, filters_of(shape, weight), bias, y);
  }
  if (patchwise_suits(shape)) return patchwise_forward(shape, x, weight, bias, y);
  if (fewer_products(shape, x, filters_of(shape, weight), bias, y)) return;
  if (direct_suits(shape)) return direct_forward(shape, x, weight, bias, y);
  gemm_forward(shape, x, weight, bias, y);
}

}  // namespace conv

namespace {

using backend::ConvolutionCall;
using backend::ConvolutionOp;
using conv::Shape;

// ---- images as planes, [batch, channels, height, width]

// Whether the gradient of x is itself a convolution.
bool can_turn(const Shape& shape) { return shape.stride_height == 1 && shape.stride_width == 1; }

template <class T>
std::vector<T> turned_filters(const Shape& shape, const T* weight) {
  std::vector<T> filters(
      static_cast<std::size_t>(shape.groups * shape.out_channels * shape.patch()));
  conv::turn_filters(shape, weight, filters.data());
  return filters;
}

template <class T>
void input_gradient(const Shape& shape, const T* weight, const T* y, const T* bias, T* x) {
  if (conv::patchwise_suits(shape)) {
    return conv::patchwise_input_gradient(shape, weight, y, bias, x);
  }
  if (!can_turn(shape)) {
    return conv::phases_suit(shape) ? conv::phased_input_gradient(shape, weight, y, bias, x)
                                    : conv::scatter_input_gradient(shape, weight, y, bias, x);
  }
  const Shape turned = conv::turned(shape);
  if (conv::pointwise_suits(turned)) {
    return conv::pointwise_forward(turned, y, conv::turned_in_place(shape, weight), bias, x);
  }
  if (conv::fewer_products(turned, y, conv::turned_in_place(shape, weight), bias, x)) return;
  const std::vector<T> filters = turned_filters(shape, weight);
  conv::forward<T>(turned, y, filters.data(), bias, x);
}

template <class T>
void weight_gradient(const Shape& shape, const T* x, const T* y, T* weight) {
  if (conv::pointwise_suits_weights(shape)) {
    return conv::pointwise_weight_gradient(shape, x, y, weight);
  }
  if (conv::patchwise_suits_weights(shape)) {
    return conv::patchwise_weight_gradient(shape, x, y, weight);
  }
  if (conv::winograd_suits_weights(shape) && conv::winograd_weight_gradient(shape, x, y, weight)) {
    return;
  }
  if (conv::direct_suits_weights(shape)) return conv::direct_weight_gradient(shape, x, y, weight);
  conv::gemm_weight_gradient(shape, x, y, weight);
}

template <class T>
void run(ConvolutionOp op, const Shape& shape, T* x, T* weight, T* y, const T* bias) {
  switch (op) {
    case ConvolutionOp::forward:
      return conv::forward<T>(shape, x, weight, bias, y);
    case ConvolutionOp::input_gradient:
      return input_gradient<T>(shape, weight, y, bias, x);
    case ConvolutionOp::weight_gradient:
      return weight_gradient<T>(shape, x, y, weight);
  }
}

// ---- images as pixels, [batch, height, width, channels]

// A temporary copy of images in the other layout.
template <class T>
class Planes {
 public:
  Planes(T* pixels, std::int64_t batch, std::int64_t channels, std::int64_t pixel_count)
      : shape_{batch, channels, pixel_count},
        as_pixels_{channels * pixel_count, 1, channels},
        as_planes_{channels * pixel_count, pixel_count, 1},
        pixels_(pixels),
        memory_(detail::allocate_host(
            static_cast<std::size_t>(batch * channels * pixel_count) * sizeof(T), "convolution")) {}

  T* data() const { return static_cast<T*>(memory_->data); }
  const Planes& read() const {
    conv::rearrange(shape_, pixels_, as_pixels_, data(), as_planes_);
    return *this;
  }
  void write() const { conv::rearrange(shape_, data(), as_planes_, pixels_, as_pixels_); }

 private:
  const extensor::Shape shape_;
  const Strides as_pixels_, as_planes_;
  T* pixels_;
  StoragePointer memory_;
};

// Two copies pay off for few filters, for products that Winograd's transform saves, and for pixels
// of few channels, whose patches are short runs in memory.
bool planes_suit(ConvolutionOp op, const Shape& shape) {
  constexpr std::int64_t few_channels = 8;
  if (op == ConvolutionOp::input_gradient && can_turn(shape)) {
    return planes_suit(ConvolutionOp::forward, conv::turned(shape));
  }
  if (shape.in_channels < few_channels) return true;
  if (op == ConvolutionOp::weight_gradient) {
    return conv::winograd_suits_weights(shape) || conv::direct_suits_weights(shape);
  }
  return op == ConvolutionOp::forward &&
         (conv::winograd_suits(shape) || conv::dilated_suits(shape) || conv::direct_suits(shape));
}

template <class T>
void run_on_planes(ConvolutionOp op, const Shape& shape, T* x, T* weight, T* y, const T* bias) {
  const Planes<T> in(x, shape.batch, shape.groups * shape.in_channels, shape.in_pixels());
  const Planes<T> out(y, shape.batch, shape.groups * shape.out_channels, shape.out_pixels());
  if (op != ConvolutionOp::input_gradient) in.read();
  if (op != ConvolutionOp::forward) out.read();
  run<T>(op, shape, in.data(), weight, out.data(), bias);
  if (op == ConvolutionOp::input_gradient) in.write();
  if (op == ConvolutionOp::forward) out.write();
}

template <class T>
void run_channels_last(ConvolutionOp op, const Shape& shape, T* x, T* weight, T* y, const T* bias) {
  namespace last = conv::channels_last;
  if (last::depthwise_suits(shape)) {
    switch (op) {
      case ConvolutionOp::forward:
        return last::depthwise_forward<T>(shape, x, weight, bias, y);
      case ConvolutionOp::input_gradient:
        return last::depthwise_input_gradient<T>(shape, weight, y, bias, x);
      case ConvolutionOp::weight_gradient:
        return last::depthwise_weight_gradient<T>(shape, x, y, weight);
    }
  }
  const bool pointwise = last::pointwise_suits(shape);
  if (!pointwise && planes_suit(op, shape)) {
    return run_on_planes(op, shape, x, weight, y, bias);
  }
  switch (op) {
    case ConvolutionOp::forward:
      return pointwise ? last::pointwise_forward<T>(shape, x, weight, bias, y)
                       : last::gemm_forward<T>(shape, x, weight, bias, y);
    case ConvolutionOp::input_gradient:
      if (pointwise) return last::pointwise_input_gradient<T>(shape, weight, y, bias, x);
      if (!can_turn(shape)) return last::scatter_input_gradient<T>(shape, weight, y, bias, x);
      return last::gemm_forward<T>(conv::turned(shape), y, turned_filters(shape, weight).data(),
                                   bias, x);
    case ConvolutionOp::weight_gradient:
      return pointwise ? last::pointwise_weight_gradient<T>(shape, x, y, weight)
                       : last::gemm_weight_gradient<T>(shape, x, y, weight);
  }
}

template <class T>
void run(const ConvolutionCall& call) {
  T* x = reinterpret_cast<T*>(call.x);
  T* weight = reinterpret_cast<T*>(call.weight);
  T* y = reinterpret_cast<T*>(call.y);
  const T* bias = reinterpret_cast<const T*>(call.bias);
  if (call.channels_last) {
    return run_channels_last<T>(call.op, call.shape, x, weight, y, bias);
  }
  run<T>(call.op, call.shape, x, weight, y, bias);
}

}  // namespace

void convolution(const ConvolutionCall& call) {
  if (call.dtype == DType::float64) return run<double>(call);
  run<float>(call);
}

}  // namespace extensor::cpu
