// Functions of a complex tensor that treat its real and imaginary parts alike.
#pragma once

#include "extensor/complex.h"

namespace extensor::ops {

// `function` of the parts: one call on view_as_real(x) where the rank leaves room for its last
// axis, which the function keeps. Axes must be given as positive numbers.
template <class Function>
Tensor by_parts(const Tensor& x, const Function& function) {
  if (x.ndim() < max_rank) return view_as_complex(function(view_as_real(x)).contiguous());
  return complex(function(real(x)), function(imag(x)));
}

}  // namespace extensor::ops
