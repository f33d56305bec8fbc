// The pooling family of a backend: windows of planes, described axis by axis.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "extensor/dtype.h"

namespace extensor::backend {

enum class PoolingOp : std::uint8_t { largest, largest_gradient, average, average_gradient };

// The positions begin, begin + step … below end of one axis, all inside x.
struct PoolingWindow {
  std::int64_t begin, end;
  std::int64_t size;  // the divisor of an average along this axis
};

// The windows of one axis. Kernels receive this rule and compute window i from it.
struct PoolingAxis {
  std::int64_t length;      // of x
  std::int64_t count;       // of windows
  std::int64_t kernel = 0;  // 0: windows cover the axis evenly
  std::int64_t stride = 1, padding = 0, dilation = 1;
  bool count_padding = false;

  constexpr PoolingWindow operator[](std::int64_t i) const {
    PoolingWindow window{};
    if (kernel == 0) {
      window.begin = bound(i, 0);
      window.end = bound(i + 1, count - 1);
      window.size = window.end - window.begin;
      return window;
    }
    const std::int64_t start = i * stride - padding;
    const std::int64_t last = start + (kernel - 1) * dilation;
    window.begin = start >= 0 ? start : start + ((-start - 1) / dilation + 1) * dilation;
    window.end = std::max(window.begin, std::min(length, last + 1));
    window.size = count_padding ? std::min(start + kernel, length + padding) - start
                                : window.end - window.begin;
    return window;
  }

 private:
  // (k · length + more) / count without the product, which may overflow.
  constexpr std::int64_t bound(std::int64_t k, std::int64_t more) const {
    const std::int64_t whole = length / count, rest = length % count;
    return k * whole + static_cast<std::int64_t>((static_cast<__int128>(k) * rest + more) / count);
  }
};

// All operands are dense and of one dtype: float32, float64 or, if the backend takes them, a half.
struct PoolingCall {
  PoolingOp op;
  DType dtype;
  std::int64_t planes, in_height, in_width, out_height, out_width;
  // 1, or the number of channels if x is channels_last: x is then [planes / channels, in_height,
  // in_width, channels], and so are y and out.
  std::int64_t channels;
  PoolingAxis rows, columns;
  std::int64_t row_step, column_step;
  bool pairs;          // windows of 2 × 2 without overlap or gaps, from (0, 0) on
  const std::byte* x;  // [planes, in_height, in_width]; not read for average_gradient
  const std::byte* y;  // the gradient of the result, for a gradient
  std::byte* out;      // like the result or, for a gradient, like x
};

}  // namespace extensor::backend
