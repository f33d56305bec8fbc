// Declarations shared by the files of the PyTorch peer.
#pragma once

#include <ATen/ATen.h>

#include "task.h"

namespace extensor::bench {

// Operand `index` of a task, with the same values as ExTensor's.
at::Tensor torch_operand(const Task& task, std::size_t index);

// Each returns an empty Work for a task of another family.
Work torch_convolution(const Task& task);
Work torch_layers(const Task& task);
Work torch_network_ops(const Task& task);
Work torch_attention(const Task& task);
Work torch_training(const Task& task);
Work torch_networks(const Task& task);

}  // namespace extensor::bench
