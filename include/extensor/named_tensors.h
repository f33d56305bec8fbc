// Tensors with names, in an order: what a module's state is, and what a file of tensors holds.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "extensor/tensor.h"

namespace extensor {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

}  // namespace extensor
