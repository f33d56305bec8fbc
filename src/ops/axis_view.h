// Axes of shapes: a dense tensor seen as [outer, length, inner] around one of them, and conversions
// between axes, which are signed, and positions in a Shape, which are not.
#pragma once

#include "extensor/shape.h"

namespace extensor::ops {

inline std::int64_t rank_of(const Shape& shape) { return static_cast<std::int64_t>(shape.size()); }
inline std::size_t at(std::int64_t axis) { return static_cast<std::size_t>(axis); }

struct AxisView {
  std::int64_t outer = 1, length = 1, inner = 1;

  AxisView(const Shape& shape, std::int64_t axis) {
    for (std::size_t d = 0; d < shape.size(); ++d) {
      (d < at(axis) ? outer : d == at(axis) ? length : inner) *= shape[d];
    }
  }
};

}  // namespace extensor::ops
