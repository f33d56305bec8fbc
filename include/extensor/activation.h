// Activations that a matrix product or a convolution can apply while it stores its result.
#pragma once

#include <cstdint>

#include "extensor/export.h"

EXTENSOR_BEGIN_API

namespace extensor {

// gelu is exact; gelu_tanh is its tanh approximation.
enum class Activation : std::uint8_t { none, relu, sigmoid, tanh, gelu, silu, gelu_tanh };

}  // namespace extensor

EXTENSOR_END_API
