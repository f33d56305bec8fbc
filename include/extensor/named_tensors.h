// Tensors with names, in an order: what a module's state is, and what a file of tensors holds.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

}  // namespace extensor

EXTENSOR_END_API
