// The pooling family of a backend: windows of planes, described axis by axis.
#pragma once

#include <cstddef>
#include <cstdint>

#include "extensor/dtype.h"

namespace extensor::backend {

enum class PoolingOp : std::uint8_t { largest, largest_gradient, average, average_gradient };

// The positions begin, begin + step … below end of one axis, all inside x.
struct PoolingWindow {
  std::int64_t begin, end;
  std::int64_t size;  // what an average counts along this axis
};

// All operands dense and of one dtype, float32 or float64.
struct PoolingCall {
  PoolingOp op;
  DType dtype;
  std::int64_t planes, in_height, in_width, out_height, out_width;
  // 1, or the number of channels where those of a pixel lie side by side: x then reads [planes /
  // channels, in_height, in_width, channels], and so do y and out.
  std::int64_t channels;
  const PoolingWindow* rows;     // out_height of them
  const PoolingWindow* columns;  // out_width
  std::int64_t row_step, column_step;
  bool pairs;          // windows of 2 × 2 that neither overlap nor leave gaps, from (0, 0) on
  const std::byte* x;  // [planes, in_height, in_width]; not read for average_gradient
  const std::byte* y;  // the gradient of the result, for a gradient
  std::byte* out;      // as the result, or for a gradient as x
};

}  // namespace extensor::backend
