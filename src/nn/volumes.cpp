// Convolution and pooling layers of signals and volumes.
#include <algorithm>

#include "core/check.h"
#include "extensor/nn/convolution.h"
#include "extensor/nn/pooling.h"
#include "nn/layer_checks.h"

namespace extensor::nn {

using extensor::detail::message;

namespace {

std::string text(std::int64_t size) { return size == same_padding ? "same" : message(size); }
// Formats as "5", or "5×3×3" if the sides differ.
std::string text(const Size3d& size) {
  if (size == Size3d(size.depth)) return text(size.depth);
  return text(size.depth) + "×" + text(size.height) + "×" + text(size.width);
}

// Formats as ", stride 2", or as nothing for the default.
template <class Size>
std::string option(const char* name, const Size& value, const Size& usual) {
  return value == usual ? "" : message(", ", name, " ", text(value));
}

void check_kernel(const char* layer, std::int64_t kernel) {
  detail::check_positive(layer, "kernel", kernel);
}
void check_kernel(const char* layer, const Size3d& kernel) {
  if (std::min({kernel.depth, kernel.height, kernel.width}) >= 1) return;
  throw ValueError(message(layer, ": kernel is ", text(kernel), ", must be 1 or more"));
}

// The initial weight and bias of a convolution.
void initialize(Parameter& weight, Parameter& bias, const Shape& shape, std::int64_t out_channels,
                bool with_bias, DType dtype) {
  const double bound = detail::default_bound(shape);
  weight = detail::uniform_parameter(shape, bound, dtype);
  if (with_bias) bias = detail::uniform_parameter({out_channels}, bound, dtype);
}

template <class Options, class Size>
std::string convolution_text(std::int64_t in, std::int64_t out, const Size& kernel,
                             const Options& options, const Parameter& bias) {
  return message(
      in, " → ", out, ", kernel ", text(kernel), option("stride", options.stride, Size(1)),
      option("padding", options.padding, Size(0)), option("dilation", options.dilation, Size(1)),
      option<std::int64_t>("groups", options.groups, 1), bias.defined() ? "" : ", no bias");
}

Size3d taps(const Shape& weight) { return {weight[2], weight[3], weight[4]}; }

}  // namespace

// ---- convolution

Conv3d::Conv3d(std::int64_t in_channels, std::int64_t out_channels, const Size3d& kernel,
               const Conv3dOptions& options)
    : options_(detail::layer_options(options)) {
  detail::check_groups("Conv3d", in_channels, out_channels, options.groups);
  check_kernel("Conv3d", kernel);
  initialize(
      weight, bias,
      {out_channels, in_channels / options.groups, kernel.depth, kernel.height, kernel.width},
      out_channels, options.bias, options.dtype.value_or(default_float));
}
Tensor Conv3d::forward(const Tensor& x) const {
  detail::check_dtype("Conv3d", "x", x, weight);
  return conv3d(x, weight, bias, options_);
}
std::string Conv3d::describe() const {
  const Shape& shape = weight.shape();
  return convolution_text(shape[1] * options_.groups, shape[0], taps(shape), options_, bias);
}

ConvTranspose1d::ConvTranspose1d(std::int64_t in_channels, std::int64_t out_channels,
                                 std::int64_t kernel, const ConvTranspose1dOptions& options)
    : options_(detail::layer_options(options)) {
  detail::check_groups("ConvTranspose1d", in_channels, out_channels, options.groups);
  check_kernel("ConvTranspose1d", kernel);
  initialize(weight, bias, {in_channels, out_channels / options.groups, kernel}, out_channels,
             options.bias, options.dtype.value_or(default_float));
}
Tensor ConvTranspose1d::forward(const Tensor& x) const {
  detail::check_dtype("ConvTranspose1d", "x", x, weight);
  return conv_transpose1d(x, weight, bias, options_);
}
std::string ConvTranspose1d::describe() const {
  const Shape& shape = weight.shape();
  return convolution_text(shape[0], shape[1] * options_.groups, shape[2], options_, bias);
}

ConvTranspose3d::ConvTranspose3d(std::int64_t in_channels, std::int64_t out_channels,
                                 const Size3d& kernel, const ConvTranspose3dOptions& options)
    : options_(detail::layer_options(options)) {
  detail::check_groups("ConvTranspose3d", in_channels, out_channels, options.groups);
  check_kernel("ConvTranspose3d", kernel);
  initialize(
      weight, bias,
      {in_channels, out_channels / options.groups, kernel.depth, kernel.height, kernel.width},
      out_channels, options.bias, options.dtype.value_or(default_float));
}
Tensor ConvTranspose3d::forward(const Tensor& x) const {
  detail::check_dtype("ConvTranspose3d", "x", x, weight);
  return conv_transpose3d(x, weight, bias, options_);
}
std::string ConvTranspose3d::describe() const {
  const Shape& shape = weight.shape();
  return convolution_text(shape[0], shape[1] * options_.groups, taps(shape), options_, bias);
}

// ---- pooling

namespace {

template <class Size, class Options>
std::string pooling_text(const Size& kernel, const Options& options) {
  return text(kernel) + option<Size>("stride", options.stride.value_or(kernel), kernel) +
         option<Size>("padding", options.padding, Size(0));
}

}  // namespace

#define EXTENSOR_POOLING(Type, Kernel, Size, Options)                                             \
  Type::Type(const Kernel& kernel, const Options& options) : kernel_(kernel), options_(options) { \
    check_kernel(#Type, Size(kernel));                                                            \
  }                                                                                               \
  std::string Type::describe() const { return pooling_text(Size(kernel_), options_); }
EXTENSOR_POOLING(MaxPool1d, StrictInt, std::int64_t, MaxPool1dOptions)
EXTENSOR_POOLING(AvgPool1d, StrictInt, std::int64_t, AvgPool1dOptions)
EXTENSOR_POOLING(MaxPool3d, Size3d, Size3d, MaxPool3dOptions)
EXTENSOR_POOLING(AvgPool3d, Size3d, Size3d, AvgPool3dOptions)
#undef EXTENSOR_POOLING

}  // namespace extensor::nn
