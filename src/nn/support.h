// Shared by layers: checks of their arguments, and initial parameters.
#pragma once

#include "extensor/nn/module.h"

namespace extensor::nn::detail {

using extensor::detail::message;

// ValueError, naming the layer.
void check_positive(const char* layer, const char* argument, std::int64_t value);

// DTypeError when x is of another float dtype than the layer's parameters: promotion would turn the
// whole network into the wider dtype. Under Autocast, float32 and the halves go together.
void check_mixed_dtypes(const char* layer, const char* argument, DType input, DType parameters);
inline void check_dtype(const char* layer, const char* argument, const Tensor& x,
                        const Tensor& parameter) {
  if (!x.defined() || !parameter.defined() || x.dtype() == parameter.dtype()) return;
  check_mixed_dtypes(layer, argument, x.dtype(), parameter.dtype());
}

// Bit for bit, NaN included; false when dtypes or shapes differ.
bool have_same_values(const Tensor& a, const Tensor& b);

// Drops what an interrupted copy of a module has left; see copying.cpp.
void forget_planned_copies();

// U(−bound, bound).
Parameter uniform_parameter(const Shape& shape, double bound, DType dtype);

}  // namespace extensor::nn::detail
