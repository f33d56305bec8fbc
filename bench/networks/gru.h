// The last output of a GRU of two layers.
#pragma once

#include <extensor/extensor.h>

namespace extensor::bench {

struct Gru : nn::Module<Gru> {
  nn::GRU gru{128, 128, {.layers = 2}};
  // [time, n, 128] → [n, 128]
  Tensor forward(const Tensor& x) const { return gru(x).output[-1]; }
};

}  // namespace extensor::bench
