// Helpers for outputs with classes in the last dimension, and for moving batches to a device.
#pragma once

#include "extensor/data/dataset.h"
#include "extensor/tensor.h"

namespace extensor::train {

bool are_classes(const Tensor& outputs, const Tensor& targets);

// The number of targets whose class has the highest output: an int64 scalar.
Tensor right_outputs(const Tensor& outputs, const Tensor& targets);

data::Batch moved_to(const data::Batch& batch, Device device);

}  // namespace extensor::train
