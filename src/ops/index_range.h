// Integers that name positions, checked before anything reads through them.
#pragma once

#include <optional>

#include "extensor/tensor.h"

namespace extensor::ops {

// The indices as dense int64. DTypeError unless they are integers, IndexError for one outside
// 0 … limit − 1 other than `ignored`; `things` names what is counted ("classes").
Tensor checked_indices(const char* operation, const char* argument, const Tensor& indices,
                       std::int64_t limit, const char* things,
                       std::optional<std::int64_t> ignored = {});

}  // namespace extensor::ops
