// Helpers for outputs with classes in the last dimension.
#pragma once

#include "extensor/tensor.h"

namespace extensor::train {

bool are_classes(const Tensor& outputs, const Tensor& targets);

// The number of targets whose class has the highest output: an int64 scalar.
Tensor right_outputs(const Tensor& outputs, const Tensor& targets);

}  // namespace extensor::train
