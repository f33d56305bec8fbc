// The physical floor of a case: the same bytes merely copied or read, or the same flops from
// registers.
#pragma once

#include "task.h"

namespace extensor::bench {

struct Floor {
  Work work;         // one call; empty if the floor is unknown
  double scale = 1;  // number of calls that make the floor
};

// The fastest copy of this machine, reading and writing `bytes` in total.
Floor copy_floor(double bytes, int threads);
Floor read_floor(double bytes, int threads);
// Reads four arrays of `elements` float32 and writes three of them: the memory traffic of an
// optimizer with two states per parameter.
Floor in_place_floor(std::int64_t elements, int threads);
// Fused multiply-adds from registers on every thread.
Floor fma_floor(double flops, DType dtype, int threads);

}  // namespace extensor::bench
