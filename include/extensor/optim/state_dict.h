// What an optimizer, a schedule or an average remembers, as plain data that a checkpoint can store.
#pragma once

#include <map>
#include <string>

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor::optim {

// PyTorch's names, their levels joined by dots: "state.0.exp_avg" is that of the first parameter,
// "param_groups.1.lr" that of the second group. The tensors are copies.
struct StateDict {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, double> numbers;
};

}  // namespace extensor::optim

EXTENSOR_END_API
