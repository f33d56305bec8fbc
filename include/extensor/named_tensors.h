// Named tensors in a fixed order: the state of a module, or the contents of a tensor file.
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
