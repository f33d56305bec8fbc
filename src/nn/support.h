// What layers share: checks of their arguments, and parameters to begin with.
#pragma once

#include "extensor/nn/module.h"

namespace extensor::nn::detail {

using extensor::detail::message;

// ValueError, naming the layer.
void check_positive(const char* layer, const char* argument, std::int64_t value);

// U(−bound, bound).
Parameter uniform_parameter(const Shape& shape, double bound, DType dtype);

}  // namespace extensor::nn::detail
