// Convolutions over images [batch, channels, height, width], signals [batch, channels, length] and
// volumes [batch, channels, depth, height, width], and their gradients. All functions take floats
// on one device and compute halves in float32. They throw ShapeError for shapes that do not fit
// together and ValueError for an option out of range.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

// A height and a width; one number stands for both.
struct Size2d {
  std::int64_t height, width;
  template <StrictInteger T>
  constexpr Size2d(T both)  // NOLINT: implicit, {.stride = 2}
      : height(StrictInt(both)), width(height) {}
  constexpr Size2d(StrictInt h, StrictInt w) : height(h), width(w) {}
  friend constexpr bool operator==(const Size2d&, const Size2d&) = default;
};

// A depth, a height and a width; one number stands for all.
struct Size3d {
  std::int64_t depth, height, width;
  template <StrictInteger T>
  constexpr Size3d(T all)  // NOLINT: implicit, {.stride = 2}
      : depth(StrictInt(all)), height(depth), width(depth) {}
  constexpr Size3d(StrictInt d, StrictInt h, StrictInt w) : depth(d), height(h), width(w) {}
  friend constexpr bool operator==(const Size3d&, const Size3d&) = default;
};

// As the padding of a convolution with stride 1: as many zeros as make the result as long as x, one
// more after x than before it if their number is odd. PyTorch's padding="same".
inline constexpr std::int64_t same_padding = std::numeric_limits<std::int64_t>::min();

// The options of a convolution and of its layer. A function takes its bias and its dtype from its
// tensors, and throws if the last two options contradict them.
struct Conv1dOptions {
  std::int64_t stride = 1;
  std::int64_t padding = 0;  // zeros on both sides, or same_padding
  std::int64_t dilation = 1;
  std::int64_t groups = 1;  // channels / groups of x meet out / groups filters; channels: depthwise
  bool bias = true;         // whether the layer has one
  std::optional<DType> dtype = {};  // of the layer's parameters; default float32
};

struct Conv2dOptions {
  Size2d stride = 1;
  Size2d padding = 0;
  Size2d dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  std::optional<DType> dtype = {};
};

struct ConvTranspose2dOptions {
  Size2d stride = 1;
  Size2d padding = 0;         // removes this much from each side of the result
  Size2d output_padding = 0;  // adds this much at the end; below stride or dilation
  Size2d dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  std::optional<DType> dtype = {};
};

struct ConvTranspose1dOptions {
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t output_padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  std::optional<DType> dtype = {};
};

struct Conv3dOptions {
  Size3d stride = 1;
  Size3d padding = 0;
  Size3d dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  std::optional<DType> dtype = {};
};

struct ConvTranspose3dOptions {
  Size3d stride = 1;
  Size3d padding = 0;
  Size3d output_padding = 0;
  Size3d dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  std::optional<DType> dtype = {};
};

// A gradient is undefined unless it was requested.
struct ConvolutionGradients {
  Tensor x, weight, bias;
};
// The gradients to compute: of x, of the weight, of the bias.
using WantedGradients = std::array<bool, 3>;
inline constexpr WantedGradients all_gradients = {true, true, true};

// y[n, o, i, j] = bias[o] + Σ x[n, c, i·stride + r·dilation − padding, …] · weight[o, c, r, s]; x
// [N, C, H, W], weight [out, C / groups, kh, kw], bias [out] or none. The result is [N, out,
// (H + 2·padding − dilation·(kh − 1) − 1) / stride + 1, …]. One image [C, H, W] yields one image;
// so do the other functions here, with a signal or a volume.
//
//   auto y = conv2d(x, weight, bias, {.stride = 2, .padding = {1, 0}});
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv2dOptions& options = {});
ConvolutionGradients conv2d_backward(const Tensor& grad_output, const Tensor& x,
                                     const Tensor& weight, const Conv2dOptions& options = {},
                                     const WantedGradients& wanted = all_gradients);

// The same along one axis: x [N, C, L], weight [out, C / groups, k].
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv1dOptions& options = {});
ConvolutionGradients conv1d_backward(const Tensor& grad_output, const Tensor& x,
                                     const Tensor& weight, const Conv1dOptions& options = {},
                                     const WantedGradients& wanted = all_gradients);

// The gradient of conv2d with respect to x, as a layer: x [N, C, H, W], weight [C, out / groups,
// kh, kw], result [N, out, (H − 1)·stride − 2·padding + dilation·(kh − 1) + output_padding + 1, …].
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose2dOptions& options = {});
ConvolutionGradients conv_transpose2d_backward(const Tensor& grad_output, const Tensor& x,
                                               const Tensor& weight,
                                               const ConvTranspose2dOptions& options = {},
                                               const WantedGradients& wanted = all_gradients);

// The same along one axis: x [N, C, L], weight [C, out / groups, k].
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose1dOptions& options = {});
ConvolutionGradients conv_transpose1d_backward(const Tensor& grad_output, const Tensor& x,
                                               const Tensor& weight,
                                               const ConvTranspose1dOptions& options = {},
                                               const WantedGradients& wanted = all_gradients);

// The same for volumes: x [N, C, D, H, W], weight [out, C / groups, kd, kh, kw].
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv3dOptions& options = {});
ConvolutionGradients conv3d_backward(const Tensor& grad_output, const Tensor& x,
                                     const Tensor& weight, const Conv3dOptions& options = {},
                                     const WantedGradients& wanted = all_gradients);

// The gradient of conv3d with respect to x, as a layer: x [N, C, D, H, W], weight [C, out / groups,
// kd, kh, kw].
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose3dOptions& options = {});
ConvolutionGradients conv_transpose3d_backward(const Tensor& grad_output, const Tensor& x,
                                               const Tensor& weight,
                                               const ConvTranspose3dOptions& options = {},
                                               const WantedGradients& wanted = all_gradients);

}  // namespace extensor

EXTENSOR_END_API
