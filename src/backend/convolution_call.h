// The convolution family of a backend: three products of the same three tensors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "extensor/dtype.h"

namespace extensor::backend {

// x is [batch, groups · in_channels, in_height, in_width], weight [groups · out_channels,
// in_channels, kernel_height, kernel_width], y [batch, groups · out_channels, out_height,
// out_width]. At tap (r, s), element (i, j) of y uses element (i · stride + r · dilation − padding,
// …) of x, or 0 if that lies outside x.
struct ConvolutionShape {
  std::int64_t batch, groups;
  std::int64_t in_channels, out_channels;  // of one group
  std::int64_t in_height, in_width, out_height, out_width;
  std::int64_t kernel_height, kernel_width;
  std::int64_t stride_height, stride_width;
  std::int64_t padding_height, padding_width;  // negative: skips the first rows of x
  std::int64_t dilation_height, dilation_width;

  constexpr std::int64_t in_pixels() const { return in_height * in_width; }
  constexpr std::int64_t out_pixels() const { return out_height * out_width; }
  constexpr std::int64_t taps() const { return kernel_height * kernel_width; }
  // Elements of x per element of y.
  constexpr std::int64_t patch() const { return in_channels * taps(); }
};

// forward writes y; input_gradient writes x from that of y; weight_gradient writes weight.
enum class ConvolutionOp : std::uint8_t { forward, input_gradient, weight_gradient };

// All operands are dense and of one dtype: float32, float64 or, if the backend takes them, a half.
struct ConvolutionCall {
  ConvolutionOp op;
  DType dtype;
  ConvolutionShape shape;
  // x and y are stored as [batch, height, width, channels]; weight never is.
  bool channels_last;
  std::byte* x;
  std::byte* weight;
  std::byte* y;
  const std::byte* bias;  // one number per channel of the result (x or y), or null
};

}  // namespace extensor::backend
