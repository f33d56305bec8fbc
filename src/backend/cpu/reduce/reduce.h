// The reduction family of the CPU backend.
#pragma once

#include "backend/backend.h"

namespace extensor::cpu {

// Float sums are pairwise over blocks of fixed size, so the error grows with the logarithm of the
// length and the bits do not depend on the number of threads. Integers and bool are computed in 64
// bits, halves in float32. The result for no elements is the identity.
void reduce(const backend::ReduceCall& call);

}  // namespace extensor::cpu
