// The state of an optimizer, a schedule or an average, as plain data that a checkpoint can store.
#pragma once

#include <map>
#include <string>

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor::optim {

// Uses PyTorch's names, with levels joined by dots: "state.0.exp_avg" belongs to the first
// parameter, "param_groups.1.lr" to the second group. The tensors are copies.
struct StateDict {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, double> numbers;
};

}  // namespace extensor::optim

EXTENSOR_END_API
