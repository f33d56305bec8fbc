// The arguments of a compiled formula. Compiled by the host's compiler and by NVRTC.
#pragma once

#include <cstdint>

#include "backend/cuda/iteration.h"

namespace extensor::backend::cuda {

struct FormulaOperands {
  std::int64_t count;  // of elements
  std::int64_t packs;  // of the elements that a thread computes together
  const void* inputs[5];
  void* outputs[4];
};

// Over packs, for inputs that are not dense.
using FormulaIteration = IterationOf<5>;

inline constexpr int formula_threads = 256;

}  // namespace extensor::backend::cuda
