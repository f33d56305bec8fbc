// Pooling over images [batch, channels, height, width], signals [batch, channels, length] and
// volumes [batch, channels, depth, height, width], or over one of them without the batch, and its
// gradients. Floats only; ShapeError for shapes that do not fit, ValueError for an option out of
// range.
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

// ---- signals [N, C, L]

struct MaxPool1dOptions {
  std::optional<std::int64_t> stride = {};  // defaults to the kernel
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  bool ceil_mode = false;
};

struct AvgPool1dOptions {
  std::optional<std::int64_t> stride = {};
  std::int64_t padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;
};

Tensor max_pool1d(const Tensor& x, StrictInt kernel, const MaxPool1dOptions& options = {});
Tensor max_pool1d_backward(const Tensor& grad_output, const Tensor& x, StrictInt kernel,
                           const MaxPool1dOptions& options = {});
Tensor avg_pool1d(const Tensor& x, StrictInt kernel, const AvgPool1dOptions& options = {});
Tensor avg_pool1d_backward(const Tensor& grad_output, const Shape& input_shape, StrictInt kernel,
                           const AvgPool1dOptions& options = {});

// ---- volumes [N, C, D, H, W]

struct MaxPool3dOptions {
  std::optional<Size3d> stride = {};  // defaults to the kernel
  Size3d padding = 0;
  Size3d dilation = 1;
  bool ceil_mode = false;
};

struct AvgPool3dOptions {
  std::optional<Size3d> stride = {};
  Size3d padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;
};

Tensor max_pool3d(const Tensor& x, const Size3d& kernel, const MaxPool3dOptions& options = {});
Tensor max_pool3d_backward(const Tensor& grad_output, const Tensor& x, const Size3d& kernel,
                           const MaxPool3dOptions& options = {});
Tensor avg_pool3d(const Tensor& x, const Size3d& kernel, const AvgPool3dOptions& options = {});
Tensor avg_pool3d_backward(const Tensor& grad_output, const Shape& input_shape,
                           const Size3d& kernel, const AvgPool3dOptions& options = {});

}  // namespace extensor

EXTENSOR_END_API
