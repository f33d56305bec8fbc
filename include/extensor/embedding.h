// Embedding: rows of a table selected by their numbers, and the gradient of the table.
#pragma once

#include <optional>

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

// weight[ids]: weight [rows, width], ids integers of any shape → ids.shape() + [width]. IndexError
// for an id outside 0 … rows − 1, DTypeError for ids that are not integers. Row `padding_idx` is
// read like any other, but its gradient is 0 in a recorded call.
Tensor embedding(const Tensor& weight, const Tensor& ids,
                 std::optional<StrictInt> padding_idx = {});
// The gradient of weight [rows, width]: each row is the sum of the gradients of its ids, always in
// the same order. The gradient of row `padding_idx` (negative: counted from the end) is 0.
Tensor embedding_backward(const Tensor& grad_output, const Tensor& ids, StrictInt rows,
                          std::optional<StrictInt> padding_idx = {});

}  // namespace extensor

EXTENSOR_END_API
