// The reduction family of the CPU backend.
#pragma once

#include "backend/backend.h"

namespace extensor::cpu {

// Float sums are pairwise over blocks whose size is fixed, so the error grows with the logarithm of
// the length and the bits do not depend on the number of threads. Integers and bool compute in 64
// bits, halves in float32. Nothing to reduce gives the identity.
void reduce(const backend::ReduceCall& call);

}  // namespace extensor::cpu
