// The last step of the gradients of a normalization's parameters.
#pragma once

#include "backend/cuda/context.h"

namespace extensor::backend::cuda {

// Adds `shares` lists of 2 · count partial sums in a fixed order: the first halves are those of
// `first`, the second ones those of `second`. C is float or double.
template <class C>
void add_partials(const C* partials, std::int64_t shares, std::int64_t count, C* first, C* second,
                  const char* family);

}  // namespace extensor::backend::cuda
