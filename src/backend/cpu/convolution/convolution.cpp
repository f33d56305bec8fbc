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

// ---- images in the other layout

// A temporary copy of images [batch, channels, pixels] or [batch, pixels, channels] in the other
// layout.
template <class T>
class OtherLayout {
 public:
  OtherLayout(T* images, bool as_planes, std::int64_t batch, std::int64_t channels,
              std::int64_t pixel_count)
      : shape_{batch, channels, pixel_count},
        own_{channels * pixel_count, as_planes ? pixel_count : 1, as_planes ? 1 : channels},
        other_{channels * pixel_count, as_planes ? 1 : pixel_count, as_planes ? channels : 1},
        images_(images),
        memory_(detail::allocate_host(
            static_cast<std::size_t>(batch * channels * pixel_count) * sizeof(T), "convolution")) {}

  T* data() const { return static_cast<T*>(memory_->data); }
  void read() const { conv::rearrange(shape_, images_, own_, data(), other_); }
  void write() const { conv::rearrange(shape_, data(), other_, images_, own_); }

 private:
  const extensor::Shape shape_;
  const Strides own_, other_;
  T* images_;
  StoragePointer memory_;
};

// Calls body(x, y) with x and y in the other layout, and writes the one that `op` computes.
template <class T, class Body>
void in_other_layout(ConvolutionOp op, const Shape& shape, bool as_planes, T* x, T* y,
                     const Body& body) {
  const OtherLayout<T> in(x, as_planes, shape.batch, shape.groups * shape.in_channels,
                          shape.in_pixels());
  const OtherLayout<T> out(y, as_planes, shape.batch, shape.groups * shape.out_channels,
                           shape.out_pixels());
  if (op != ConvolutionOp::input_gradient) in.read();
  if (op != ConvolutionOp::forward) out.read();
  body(in.data(), out.data());
  if (op == ConvolutionOp::input_gradient) in.write();
  if (op == ConvolutionOp::forward) out.write();
}

template <class T>
void run_depthwise(ConvolutionOp op, const Shape& shape, T* x, T* weight, T* y, const T* bias) {
  namespace last = conv::channels_last;
  switch (op) {
    case ConvolutionOp::forward:
      return last::depthwise_forward<T>(shape, x, weight, bias, y);
    case ConvolutionOp::input_gradient:
      return last::depthwise_input_gradient<T>(shape, weight, y, bias, x);
    case ConvolutionOp::weight_gradient:
      return last::depthwise_weight_gradient<T>(shape, x, y, weight);
  }
}

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

// Planes of few pixels cost more than two copies with the pixels first, one channel in each lane.
bool pixels_suit(const Shape& shape) {
  constexpr std::int64_t few_pixels = 64, few_channels = 16;
  return shape.out_pixels() <= few_pixels && shape.groups >= few_channels &&
         conv::channels_last::depthwise_suits(shape);
}

template <class T>
void run(ConvolutionOp op, const Shape& shape, T* x, T* weight, T* y, const T* bias) {
  if (pixels_suit(shape)) {
    return in_other_layout(op, shape, true, x, y, [&](T* x_pixels, T* y_pixels) {
      run_depthwise<T>(op, shape, x_pixels, weight, y_pixels, bias);
    });
  }
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
void run_channels_last(ConvolutionOp op, const Shape& shape, T* x, T* weight, T* y, const T* bias) {
  namespace last = conv::channels_last;
  if (last::depthwise_suits(shape)) return run_depthwise(op, shape, x, weight, y, bias);
  const bool pointwise = last::pointwise_suits(shape);
  if (!pointwise && planes_suit(op, shape)) {
    return in_other_layout(op, shape, false, x, y, [&](T* x_planes, T* y_planes) {
      run<T>(op, shape, x_planes, weight, y_planes, bias);
    });
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
