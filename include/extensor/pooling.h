// Pooling over images [batch, channels, height, width], or over one image without the batch, and
// its gradients. Floats only; ShapeError for shapes that do not fit, ValueError for an option out
// of range.
#pragma once

#include <optional>

#include "extensor/convolution.h"
#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

struct MaxPool2dOptions {
  std::optional<Size2d> stride = {};  // defaults to the kernel
  Size2d padding = 0;                 // with −∞; at most half the kernel
  Size2d dilation = 1;
  bool ceil_mode = false;  // allow a last window that extends past the end
};

struct AvgPool2dOptions {
  std::optional<Size2d> stride = {};
  Size2d padding = 0;  // with zeros; at most half the kernel
  bool ceil_mode = false;
  bool count_include_pad = true;  // divide by the padded window, else by its part inside x
};

// The largest element of each window; NaN if the window contains one. [N, C, H, W] → [N, C, (H +
// 2·padding − dilation·(kernel − 1) − 1) / stride + 1, …].
Tensor max_pool2d(const Tensor& x, const Size2d& kernel, const MaxPool2dOptions& options = {});
// As in PyTorch, and unlike max_reduce_backward, the first of equal maxima in row-major order gets
// the whole gradient; of several NaN the last.
Tensor max_pool2d_backward(const Tensor& grad_output, const Tensor& x, const Size2d& kernel,
                           const MaxPool2dOptions& options = {});

// The mean of each window.
Tensor avg_pool2d(const Tensor& x, const Size2d& kernel, const AvgPool2dOptions& options = {});
Tensor avg_pool2d_backward(const Tensor& grad_output, const Shape& input_shape,
                           const Size2d& kernel, const AvgPool2dOptions& options = {});

// Means over windows that tile x so that the result is [N, C, output]: window i of n reaches from
// ⌊i·H / n⌋ to ⌈(i + 1)·H / n⌉. {1, 1} is the mean of each channel.
Tensor adaptive_avg_pool2d(const Tensor& x, const Size2d& output);
Tensor adaptive_avg_pool2d_backward(const Tensor& grad_output, const Shape& input_shape);

}  // namespace extensor

EXTENSOR_END_API
