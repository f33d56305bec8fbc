// Resampling of images [batch, channels, height, width], and its gradients.
//
//   Tensor twice = interpolate(x, {.scale_factor = 2, .mode = InterpolateMode::bilinear});
//   Tensor small = interpolate(x, {.size = Size2d{32, 48}});
#pragma once

#include <concepts>
#include <optional>
#include <type_traits>

#include "extensor/convolution.h"
#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

// nearest takes element ⌊i · scale⌋, as PyTorch's "nearest" does; nearest_exact takes the element
// at the centre of the cell, as Pillow and scikit-image do.
enum class InterpolateMode : std::uint8_t { nearest, nearest_exact, bilinear, bicubic };

// Factors for height and width; one number stands for both.
struct Scale2d {
  double height, width;
  template <class T>
  requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) constexpr Scale2d(
      T both)  // NOLINT: implicit, {.scale_factor = 2}
      : height(static_cast<double>(both)), width(height) {}
  constexpr Scale2d(double h, double w) : height(h), width(w) {}
  friend constexpr bool operator==(const Scale2d&, const Scale2d&) = default;
};

struct InterpolateOptions {
  // Exactly one of the two. A factor gives ⌊factor · length⌋ elements.
  std::optional<Size2d> size = {};
  std::optional<Scale2d> scale_factor = {};
  InterpolateMode mode = InterpolateMode::nearest;
  bool align_corners = false;  // bilinear and bicubic: corner pixels keep their values
};

// x resampled to another height and width, [N, C, H, W] → [N, C, height, width], without smoothing
// where it becomes smaller. Numbers are PyTorch's. Floats; halves are computed in float32.
// ValueError for options out of range, ShapeError for images without pixels.
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);
Tensor interpolate_backward(const Tensor& grad_output, const Shape& input_shape,
                            const InterpolateOptions& options);

// Turns groups of factor² channels into pixels: [N, C · factor², H, W] → [N, C, H · factor,
// W · factor]. Any dtype; further leading axes are allowed. pixel_unshuffle is its inverse and its
// gradient, and the other way round.
Tensor pixel_shuffle(const Tensor& x, StrictInt factor);
Tensor pixel_unshuffle(const Tensor& x, StrictInt factor);

}  // namespace extensor

EXTENSOR_END_API
