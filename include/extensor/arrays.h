// Functions of whole arrays that are composed of others: views of one shape, tensors joined
// flattened, differences of neighbours.
#pragma once

#include <optional>
#include <vector>

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

// Views of one shape, to which the shapes of all broadcast.
std::vector<Tensor> broadcast_arrays(const std::vector<Tensor>& tensors);

// Joins the tensors flattened. Dtypes promote.
Tensor concatenate(const std::vector<Tensor>& tensors, std::nullopt_t);
inline Tensor concat(const std::vector<Tensor>& tensors, std::nullopt_t) {
  return concatenate(tensors, std::nullopt);
}

// The differences x[i + 1] − x[i] along an axis, n times; the axis becomes shorter by n, at most to
// 0. `prepend` and `append` are joined to x before, and have its shape but along the axis. Bools
// differ where they are not equal. ValueError for a negative n.
Tensor diff(const Tensor& x, StrictInt axis = -1, StrictInt n = 1, const Tensor& prepend = {},
            const Tensor& append = {});
// The gradient of the joined tensor, whose shape is `input_shape`.
Tensor diff_backward(const Tensor& grad_output, const Shape& input_shape, StrictInt axis = -1,
                     StrictInt n = 1);

}  // namespace extensor

EXTENSOR_END_API
