// The physical floor: the same bytes merely copied or read, the same flops from registers.
#pragma once

#include "task.h"

namespace extensor::bench {

struct Floor {
  Work work;         // one call; empty where the floor is not known
  double scale = 1;  // the floor is this many calls
};

// The quickest copy this machine has, reading and writing `bytes` in all.
Floor copy_floor(double bytes, int threads);
Floor read_floor(double bytes, int threads);
// Four arrays of `elements` float32 read, three of them written: what an optimizer with two states
// per parameter has to move.
Floor in_place_floor(std::int64_t elements, int threads);
// Fused multiply-adds from registers on every thread.
Floor fma_floor(double flops, DType dtype, int threads);

}  // namespace extensor::bench
