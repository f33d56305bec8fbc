// Argument checks and initial parameters shared by layers.
#pragma once

#include "extensor/nn/module.h"

namespace extensor::nn::detail {

using extensor::detail::message;

// Throws a ValueError that names the layer.
void check_positive(const char* layer, const char* argument, std::int64_t value);

// Throws a ValueError unless the numbers of channels and groups of a convolution fit together.
void check_groups(const char* layer, std::int64_t in, std::int64_t out, std::int64_t groups);

// Throws DTypeError if x has another float dtype than the parameters, since promotion would turn
// the whole network into the wider dtype. Under Autocast, float32 and the half dtypes may be mixed.
void check_mixed_dtypes(const char* layer, const char* argument, DType input, DType parameters);
inline void check_dtype(const char* layer, const char* argument, const Tensor& x,
                        const Tensor& parameter) {
  if (!x.defined() || !parameter.defined() || x.dtype() == parameter.dtype()) return;
  check_mixed_dtypes(layer, argument, x.dtype(), parameter.dtype());
}

// Compares bitwise, NaN included; false if dtypes or shapes differ.
bool have_same_values(const Tensor& a, const Tensor& b);

// Drops entries that an interrupted copy of a module left; see copying.cpp.
void forget_planned_copies();

// The bound of U(−1/√fan_in, 1/√fan_in), to which PyTorch's default amounts.
double default_bound(const Shape& weight);
// A parameter drawn from U(−bound, bound).
Parameter uniform_parameter(const Shape& shape, double bound, DType dtype);

// The options of the layer's calls, whose tensors decide on bias and dtype.
template <class Options>
Options layer_options(Options options) {
  options.bias = true;
  options.dtype.reset();
  return options;
}

}  // namespace extensor::nn::detail
