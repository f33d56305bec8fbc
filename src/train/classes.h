// Outputs whose last dimension is classes, and targets that say which; batches on a model's device.
#pragma once

#include "extensor/data/dataset.h"
#include "extensor/tensor.h"

namespace extensor::train {

bool are_classes(const Tensor& outputs, const Tensor& targets);

// How many of the targets have the highest output: int64, without dimensions.
Tensor right_outputs(const Tensor& outputs, const Tensor& targets);

data::Batch moved_to(const data::Batch& batch, Device device);

}  // namespace extensor::train
