// Complex numbers: their parts, and views of them as pairs of real numbers.
//
//   Tensor z = tensor({1.0 + 2.0i, 3.0 - 1.0i});   // complex64
//   Tensor length = abs(z);                        // float32
//   real(z) += 1;                                  // a view: changes z
//
// Gradients follow the convention of PyTorch: the gradient of a real loss L with respect to
// z = x + iy is ∂L/∂x + i ∂L/∂y, so that z − lr · grad descends.
#pragma once

#include "extensor/export.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

inline bool is_complex(const Tensor& x) { return is_complex(x.dtype()); }

// x + iy. The parts broadcast, and must be real: float64 parts make a complex128, others a
// complex64. DTypeError for a complex part.
Tensor complex(const Tensor& real, const Tensor& imag);

// The real part: a view of a complex tensor, and x itself if it is real.
Tensor real(const Tensor& x);
// The imaginary part, a view. DTypeError for a real tensor.
Tensor imag(const Tensor& x);
// x − iy. A real tensor is its own conjugate.
Tensor conj(const Tensor& x);
// The angle between −π and π, a float. For a real x, 0, or π where it is negative; NaN stays NaN.
Tensor angle(const Tensor& x);

// A view of complex x with a last axis of 2: the real and the imaginary part.
Tensor view_as_real(const Tensor& x);
// The inverse, a view. DTypeError unless x is float32 or float64; ShapeError unless its last axis
// has length 2; ValueError unless the pairs are whole: the last axis has the stride 1, all other
// strides are even, and x starts at an even element of its memory.
Tensor view_as_complex(const Tensor& x);

}  // namespace extensor

EXTENSOR_END_API
