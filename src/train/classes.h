// Outputs whose last dimension is classes, and targets that say which.
#pragma once

#include "extensor/tensor.h"

namespace extensor::train {

bool are_classes(const Tensor& outputs, const Tensor& targets);

// How many of the targets have the highest output.
std::int64_t count_right(const Tensor& outputs, const Tensor& targets);

}  // namespace extensor::train
