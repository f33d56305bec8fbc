// Dropout. The mask is not stored but drawn again when it is needed.
//
//   auto [y, mask] = extensor::dropout(x, 0.1);
//   Tensor grad_x = extensor::dropout_backward(grad_y, mask);
#pragma once

#include "extensor/export.h"
#include "extensor/random.h"
#include "extensor/tensor.h"

EXTENSOR_BEGIN_API

namespace extensor {

// The parameters of a mask, enough to draw it again: element i of `shape` is dropped with
// probability p, by draw i of `draws`. With p = 0 nothing is dropped and nothing was drawn.
struct DropoutMask {
  RandomState draws;
  Shape shape;
  double p = 0;
};

struct DropoutResult {
  Tensor output;
  DropoutMask mask;
};

// Each element is 0 with probability p, else x / (1 − p). Returns x itself for p = 0 or outside
// training, and zeros for p = 1. The result does not depend on the number of threads or the layout
// of x. Floats; ValueError for p outside [0, 1].
DropoutResult dropout(const Tensor& x, StrictDouble p = 0.5, StrictBool training = true,
                      Generator& generator = default_generator());
Tensor dropout_backward(const Tensor& grad_output, const DropoutMask& mask);

// Dropout of whole channels: each channel of x [N, C, …], with one to three axes after the
// channels, is 0 with probability p, else x / (1 − p). The mask has one draw per channel.
DropoutResult dropout2d(const Tensor& x, StrictDouble p = 0.5, StrictBool training = true,
                        Generator& generator = default_generator());
Tensor dropout2d_backward(const Tensor& grad_output, const DropoutMask& mask);

}  // namespace extensor

EXTENSOR_END_API
