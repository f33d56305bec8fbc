// The interpolation family of a backend: planes resampled to another size, axis by axis.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "extensor/dtype.h"

namespace extensor::backend {

enum class InterpolationRule : std::uint8_t { nearest, nearest_exact, linear, cubic };

// Element i of a resampled axis: Σ weights[k] · x[index[k]] for k < count.
struct InterpolationTaps {
  static constexpr int most = 4;
  int count;
  std::int64_t index[most];
  double weights[most];
};

// The rule of one axis. Kernels receive it and compute the taps of element i from it.
struct InterpolationAxis {
  std::int64_t in, out;  // lengths, 1 or more
  double scale;          // the distance of two elements of the result, in elements of x
  InterpolationRule rule;
  bool align_corners;  // elements are points, the outer ones in place; otherwise they are cells

  // Real is the dtype of the call: `nearest` rounds as PyTorch does in that dtype, which decides
  // between neighbours at equal distance.
  template <class Real>
  InterpolationTaps taps(std::int64_t i) const {
    InterpolationTaps taps{};
    if (rule == InterpolationRule::nearest || rule == InterpolationRule::nearest_exact) {
      const Real half = rule == InterpolationRule::nearest ? Real(0) : Real(0.5);
      const Real at = std::floor((static_cast<Real>(i) + half) * static_cast<Real>(scale));
      taps.count = 1;
      taps.index[0] = std::clamp<std::int64_t>(static_cast<std::int64_t>(at), 0, in - 1);
      taps.weights[0] = 1;
      return taps;
    }
    double at = align_corners ? static_cast<double>(i) * scale
                              : (static_cast<double>(i) + 0.5) * scale - 0.5;
    const bool linear = rule == InterpolationRule::linear;
    if (linear) at = std::max(at, 0.0);
    const double whole = std::floor(at);
    const double t = at - whole;
    const int before = linear ? 0 : 1;  // taps before `whole`
    taps.count = linear ? 2 : 4;
    for (int k = 0; k < taps.count; ++k) {
      taps.index[k] =
          std::clamp<std::int64_t>(static_cast<std::int64_t>(whole) + k - before, 0, in - 1);
      taps.weights[k] = linear ? (k == 0 ? 1 - t : t) : cubic_weight(std::abs(t + before - k));
    }
    return taps;
  }

 private:
  // Keys' kernel with a = −0.75, as in PyTorch.
  static double cubic_weight(double distance) {
    constexpr double a = -0.75;
    if (distance <= 1) return ((a + 2) * distance - (a + 3)) * distance * distance + 1;
    if (distance >= 2) return 0;
    return ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a;
  }
};

// All operands are dense and of one dtype, float32 or float64.
struct InterpolationCall {
  bool gradient;  // x is the gradient of the result, and out that of x
  DType dtype;
  std::int64_t planes;
  // 1, or the number of channels if the operands are channels_last: [planes / channels, height,
  // width, channels].
  std::int64_t channels;
  InterpolationAxis rows, columns;
  const std::byte* x;
  std::byte* out;
};

}  // namespace extensor::backend
