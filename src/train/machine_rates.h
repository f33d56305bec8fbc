// How fast this machine copies and multiplies: the yardstick of profiles.
#pragma once

#include "extensor/dtype.h"

namespace extensor::train {

struct MachineRates {
  double memory = 0, cache = 0;  // bytes per second of a copy, read and written bytes together
  double product = 0;            // FLOPs per second of a float32 matrix product
  double cache_bytes = 0;        // calls that touch at most this much may run in the caches

  // The least time for a call; NaN if the rates could not be measured.
  double floor_seconds(double bytes, double flops, DType dtype) const;
};

// Measured once, in a few hundredths of a second.
const MachineRates& machine_rates();

}  // namespace extensor::train
