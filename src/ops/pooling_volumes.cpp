// Pooling over signals and volumes, composed of pooling over images. A signal is an image of height
// 1. The windows of a volume are products of windows along its axes, so it is pooled along height
// and width first, then along the depth. The first largest element in row-major order, and the
// divisor of a mean, come out the same.
#include <array>

#include "core/check.h"
#include "extensor/manipulation.h"
#include "extensor/pooling.h"
#include "ops/launch.h"

namespace extensor {

namespace {

using detail::message;
using ops::check_float;
using ops::check_grad_output;

// The sizes along the axes of a signal or a volume.
template <std::size_t rank>
using Sizes = std::array<std::int64_t, rank>;

Sizes<1> sizes(std::int64_t given) { return {given}; }
Sizes<3> sizes(const Size3d& given) { return {given.depth, given.height, given.width}; }

template <std::size_t rank>
std::string text(const Sizes<rank>& given) {
  Dims list;
  for (std::int64_t size : given) list.push_back(size);
  return rank == 1 ? message(given[0]) : message(list);
}

template <std::size_t rank>
void check_at_least(const char* operation, const char* what, const Sizes<rank>& given,
                    std::int64_t least) {
  for (std::int64_t size : given) {
    if (size >= least) continue;
    throw ValueError(
        message(operation, ": ", what, " is ", text(given), ", must be ", least, " or more"));
  }
}

template <std::size_t rank>
void check_windows(const char* operation, const Shape& x, const Sizes<rank>& kernel,
                   const Sizes<rank>& stride, const Sizes<rank>& padding,
                   const Sizes<rank>& dilation) {
  if (x.size() != rank + 2) {
    throw ShapeError(message(
        operation, ": x is ", x, ", must have ", rank + 2, " dimensions ",
        rank == 1 ? "[batch, channels, length]" : "[batch, channels, depth, height, width]"));
  }
  check_at_least(operation, "kernel", kernel, 1);
  check_at_least(operation, "stride", stride, 1);
  check_at_least(operation, "dilation", dilation, 1);
  check_at_least(operation, "padding", padding, 0);
  for (std::size_t d = 0; d < rank; ++d) {
    if (padding[d] > kernel[d] / 2) {
      throw ValueError(message(operation, ": padding is ", text(padding),
                               ", must be at most half the kernel ", text(kernel)));
    }
    std::int64_t extent, padded;
    if (__builtin_mul_overflow(kernel[d] - 1, dilation[d], &extent) ||
        __builtin_add_overflow(x[d + 2], 2 * padding[d], &padded) || extent >= padded) {
      throw ShapeError(message(operation, ": the window is larger than the padded input: x ", x,
                               ", kernel ", text(kernel), ", padding ", text(padding),
                               ", dilation ", text(dilation)));
    }
  }
}

template <class Kernel, class Options>
void check_pooling(const char* operation, const Shape& x, const Kernel& kernel,
                   const Options& options) {
  const auto k = sizes(kernel), stride = sizes(options.stride.value_or(kernel)),
             padding = sizes(options.padding);
  if constexpr (requires { options.dilation; }) {
    check_windows(operation, x, k, stride, padding, sizes(options.dilation));
  } else {
    check_windows(operation, x, k, stride, padding, sizes(Kernel(1)));
  }
}

// ---- signals

MaxPool2dOptions of_image(const MaxPool1dOptions& options, std::int64_t kernel) {
  return {.stride = Size2d{1, options.stride.value_or(kernel)},
          .padding = {0, options.padding},
          .dilation = {1, options.dilation},
          .ceil_mode = options.ceil_mode};
}
AvgPool2dOptions of_image(const AvgPool1dOptions& options, std::int64_t kernel) {
  return {.stride = Size2d{1, options.stride.value_or(kernel)},
          .padding = {0, options.padding},
          .ceil_mode = options.ceil_mode,
          .count_include_pad = options.count_include_pad};
}

Shape image_shape(const Shape& signal) { return {signal[0], signal[1], 1, signal[2]}; }

// Whether a tensor lacks the batch: it has as many dimensions as one signal or volume.
bool is_single(const Shape& x, std::size_t axes) { return x.size() == axes + 1; }
Shape with_batch(Shape shape) {
  shape.insert(0, 1);
  return shape;
}

// Throws unless grad_output is a float [N, C, ...] of as many dimensions as x.
void check_gradient_rank(const char* operation, const Tensor& grad_output, const Shape& x) {
  check_float(operation, "grad_output", grad_output);
  if (grad_output.shape().size() == x.size()) return;
  throw ShapeError(message(operation, ": grad_output is ", grad_output.shape(), ", must have ",
                           x.size(), " dimensions"));
}

// ---- volumes

// The options along height and width, and those along the depth, with the other side left alone.
template <class Image, class Options>
struct Parts {
  Size2d plane_kernel, depth_kernel;
  Image plane, depth;

  Parts(const Size3d& kernel, const Options& options)
      : plane_kernel{kernel.height, kernel.width}, depth_kernel{kernel.depth, 1} {
    const Size3d stride = options.stride.value_or(kernel);
    plane.stride = Size2d{stride.height, stride.width};
    depth.stride = Size2d{stride.depth, 1};
    plane.padding = {options.padding.height, options.padding.width};
    depth.padding = {options.padding.depth, 0};
    plane.ceil_mode = depth.ceil_mode = options.ceil_mode;
    if constexpr (requires { options.dilation; }) {
      plane.dilation = {options.dilation.height, options.dilation.width};
      depth.dilation = {options.dilation.depth, 1};
    } else {
      plane.count_include_pad = depth.count_include_pad = options.count_include_pad;
    }
  }
};
using MaxParts = Parts<MaxPool2dOptions, MaxPool3dOptions>;
using AvgParts = Parts<AvgPool2dOptions, AvgPool3dOptions>;

// A volume as images of height × width, and as images of depth × (height · width).
Shape planes(const Shape& x) { return {x[0], x[1] * x[2], x[3], x[4]}; }
Shape columns(const Shape& x) { return {x[0], x[1], x[2], x[3] * x[4]}; }

// x pooled along height and width; the result has the shape of a volume.
template <class Pool>
Tensor pool_planes(const Tensor& x, const Pool& pool) {
  const Shape& in = x.shape();
  const Tensor y = pool(x.reshape(planes(in)));
  return y.reshape({in[0], in[1], in[2], y.size(2), y.size(3)});
}
template <class Pool>
Tensor pool_depth(const Tensor& x, const Pool& pool) {
  const Shape& in = x.shape();
  const Tensor y = pool(x.reshape(columns(in)));
  return y.reshape({in[0], in[1], y.size(2), in[3], in[4]});
}

// The shape of a volume after pooling along height and width, from the shape of a plane's result.
Shape between_shape(const Shape& in, const Tensor& grad_output) {
  return {in[0], in[1], in[2], grad_output.size(3), grad_output.size(4)};
}

}  // namespace

Tensor max_pool1d(const Tensor& x, StrictInt kernel, const MaxPool1dOptions& options) {
  check_float("max_pool1d", "x", x);
  if (is_single(x.shape(), 1)) return max_pool1d(x.unsqueeze(0), kernel, options).squeeze(0);
  check_pooling("max_pool1d", x.shape(), std::int64_t{kernel}, options);
  return max_pool2d(x.unsqueeze(2), {1, kernel}, of_image(options, kernel)).squeeze(2);
}
Tensor max_pool1d_backward(const Tensor& grad_output, const Tensor& x, StrictInt kernel,
                           const MaxPool1dOptions& options) {
  const char* operation = "max_pool1d_backward";
  check_float(operation, "x", x);
  check_gradient_rank(operation, grad_output, x.shape());
  if (is_single(x.shape(), 1)) {
    return max_pool1d_backward(grad_output.unsqueeze(0), x.unsqueeze(0), kernel, options)
        .squeeze(0);
  }
  check_pooling(operation, x.shape(), std::int64_t{kernel}, options);
  return max_pool2d_backward(grad_output.unsqueeze(2), x.unsqueeze(2), {1, kernel},
                             of_image(options, kernel))
      .squeeze(2);
}

Tensor avg_pool1d(const Tensor& x, StrictInt kernel, const AvgPool1dOptions& options) {
  check_float("avg_pool1d", "x", x);
  if (is_single(x.shape(), 1)) return avg_pool1d(x.unsqueeze(0), kernel, options).squeeze(0);
  check_pooling("avg_pool1d", x.shape(), std::int64_t{kernel}, options);
  return avg_pool2d(x.unsqueeze(2), {1, kernel}, of_image(options, kernel)).squeeze(2);
}
Tensor avg_pool1d_backward(const Tensor& grad_output, const Shape& input_shape, StrictInt kernel,
                           const AvgPool1dOptions& options) {
  const char* operation = "avg_pool1d_backward";
  check_gradient_rank(operation, grad_output, input_shape);
  if (is_single(input_shape, 1)) {
    return avg_pool1d_backward(grad_output.unsqueeze(0), with_batch(input_shape), kernel, options)
        .squeeze(0);
  }
  check_pooling(operation, input_shape, std::int64_t{kernel}, options);
  return avg_pool2d_backward(grad_output.unsqueeze(2), image_shape(input_shape), {1, kernel},
                             of_image(options, kernel))
      .squeeze(2);
}

Tensor max_pool3d(const Tensor& x, const Size3d& kernel, const MaxPool3dOptions& options) {
  check_float("max_pool3d", "x", x);
  if (is_single(x.shape(), 3)) return max_pool3d(x.unsqueeze(0), kernel, options).squeeze(0);
  check_pooling("max_pool3d", x.shape(), kernel, options);
  const MaxParts parts(kernel, options);
  const Tensor between = pool_planes(
      x, [&](const Tensor& image) { return max_pool2d(image, parts.plane_kernel, parts.plane); });
  return pool_depth(between, [&](const Tensor& image) {
    return max_pool2d(image, parts.depth_kernel, parts.depth);
  });
}
Tensor max_pool3d_backward(const Tensor& grad_output, const Tensor& x, const Size3d& kernel,
                           const MaxPool3dOptions& options) {
  const char* operation = "max_pool3d_backward";
  check_float(operation, "x", x);
  check_gradient_rank(operation, grad_output, x.shape());
  if (is_single(x.shape(), 3)) {
    return max_pool3d_backward(grad_output.unsqueeze(0), x.unsqueeze(0), kernel, options)
        .squeeze(0);
  }
  check_pooling(operation, x.shape(), kernel, options);
  const MaxParts parts(kernel, options);
  const Tensor between = pool_planes(
      x, [&](const Tensor& image) { return max_pool2d(image, parts.plane_kernel, parts.plane); });
  check_grad_output(operation, grad_output,
                    {x.size(0), x.size(1), grad_output.size(2), between.size(3), between.size(4)});
  const Tensor of_between = max_pool2d_backward(grad_output.reshape(columns(grad_output.shape())),
                                                between.reshape(columns(between.shape())),
                                                parts.depth_kernel, parts.depth);
  return max_pool2d_backward(of_between.reshape(planes(between.shape())),
                             x.reshape(planes(x.shape())), parts.plane_kernel, parts.plane)
      .reshape(x.shape());
}

Tensor avg_pool3d(const Tensor& x, const Size3d& kernel, const AvgPool3dOptions& options) {
  check_float("avg_pool3d", "x", x);
  if (is_single(x.shape(), 3)) return avg_pool3d(x.unsqueeze(0), kernel, options).squeeze(0);
  check_pooling("avg_pool3d", x.shape(), kernel, options);
  const AvgParts parts(kernel, options);
  const Tensor between = pool_planes(x.to(ops::compute_dtype(x.dtype())), [&](const Tensor& image) {
    return avg_pool2d(image, parts.plane_kernel, parts.plane);
  });
  return pool_depth(between,
                    [&](const Tensor& image) {
                      return avg_pool2d(image, parts.depth_kernel, parts.depth);
                    })
      .to(x.dtype());
}
Tensor avg_pool3d_backward(const Tensor& grad_output, const Shape& input_shape,
                           const Size3d& kernel, const AvgPool3dOptions& options) {
  const char* operation = "avg_pool3d_backward";
  check_gradient_rank(operation, grad_output, input_shape);
  if (is_single(input_shape, 3)) {
    return avg_pool3d_backward(grad_output.unsqueeze(0), with_batch(input_shape), kernel, options)
        .squeeze(0);
  }
  check_pooling(operation, input_shape, kernel, options);
  const AvgParts parts(kernel, options);
  const Shape between = between_shape(input_shape, grad_output);
  const Tensor g = grad_output.to(ops::compute_dtype(grad_output.dtype()));
  const Tensor of_between = avg_pool2d_backward(g.reshape(columns(g.shape())), columns(between),
                                                parts.depth_kernel, parts.depth);
  return avg_pool2d_backward(of_between.reshape(planes(between)), planes(input_shape),
                             parts.plane_kernel, parts.plane)
      .reshape(input_shape)
      .to(grad_output.dtype());
}

}  // namespace extensor
