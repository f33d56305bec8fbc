// Picks the way a convolution is computed.
#include "backend/cpu/convolution/convolution.h"

#include <vector>

#include "backend/cpu/convolution/routes.h"

namespace extensor::cpu {

namespace {

using backend::ConvolutionCall;
using backend::ConvolutionOp;
using conv::Shape;

template <class T>
void forward(const Shape& shape, const T* x, const T* weight, const T* bias, T* y) {
  if (conv::pointwise_suits(shape)) return conv::pointwise_forward(shape, x, weight, bias, y);
  if (conv::winograd_suits(shape) && conv::winograd_forward(shape, x, weight, bias, y)) return;
  if (conv::direct_suits(shape)) return conv::direct_forward(shape, x, weight, bias, y);
  conv::gemm_forward(shape, x, weight, bias, y);
}

// Whether the gradient of x is a convolution of its own.
bool can_turn(const Shape& shape) { return shape.stride_height == 1 && shape.stride_width == 1; }

template <class T>
void input_gradient(const Shape& shape, const T* weight, const T* y, const T* bias, T* x) {
  if (!can_turn(shape)) return conv::scatter_input_gradient(shape, weight, y, bias, x);
  std::vector<T> filters(
      static_cast<std::size_t>(shape.groups * shape.out_channels * shape.patch()));
  conv::turn_filters(shape, weight, filters.data());
  forward<T>(conv::turned(shape), y, filters.data(), bias, x);
}

template <class T>
void weight_gradient(const Shape& shape, const T* x, const T* y, T* weight) {
  if (conv::pointwise_suits_weights(shape)) {
    return conv::pointwise_weight_gradient(shape, x, y, weight);
  }
  if (conv::winograd_suits_weights(shape) && conv::winograd_weight_gradient(shape, x, y, weight))
    return;
  if (conv::direct_suits_weights(shape)) return conv::direct_weight_gradient(shape, x, y, weight);
  conv::gemm_weight_gradient(shape, x, y, weight);
}

template <class T>
void run(const ConvolutionCall& call) {
  T* x = reinterpret_cast<T*>(call.x);
  T* weight = reinterpret_cast<T*>(call.weight);
  T* y = reinterpret_cast<T*>(call.y);
  const T* bias = reinterpret_cast<const T*>(call.bias);
  switch (call.op) {
    case ConvolutionOp::forward:
      return forward<T>(call.shape, x, weight, bias, y);
    case ConvolutionOp::input_gradient:
      return input_gradient<T>(call.shape, weight, y, bias, x);
    case ConvolutionOp::weight_gradient:
      return weight_gradient<T>(call.shape, x, y, weight);
  }
}

}  // namespace

void convolution(const ConvolutionCall& call) {
  if (call.dtype == DType::float64) return run<double>(call);
  run<float>(call);
}

}  // namespace extensor::cpu
