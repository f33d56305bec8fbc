// A dense tensor seen as [outer, length, inner] around one axis.
#pragma once

#include "extensor/shape.h"

namespace extensor::ops {

struct AxisView {
  std::int64_t outer = 1, length = 1, inner = 1;

  AxisView(const Shape& shape, std::int64_t axis) {
    const auto at = static_cast<std::size_t>(axis);
    for (std::size_t d = 0; d < shape.size(); ++d) {
      (d < at ? outer : d == at ? length : inner) *= shape[d];
    }
  }
};

}  // namespace extensor::ops
