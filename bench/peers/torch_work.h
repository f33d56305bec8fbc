// What the files of the PyTorch peer share.
#pragma once

#include <ATen/ATen.h>

#include "task.h"

namespace extensor::bench {

// Operand `index` of a task, filled as ExTensor's is.
at::Tensor torch_operand(const Task& task, std::size_t index);

// Each gives an empty Work for a task that is not of its family.
Work torch_convolution(const Task& task);
Work torch_layers(const Task& task);
Work torch_attention(const Task& task);
Work torch_training(const Task& task);

}  // namespace extensor::bench
