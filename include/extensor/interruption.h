// Lets a program end a long call of the library between two kernels. The Python package raises
// KeyboardInterrupt this way.
#pragma once

#include <atomic>

#include "extensor/export.h"

EXTENSOR_BEGIN_API

namespace extensor::detail {

// The library calls this function, on whichever thread it works, before it allocates a tensor, as
// every op does that returns one, before the backward of each recorded call, and several times a
// second while a DataLoader waits for a worker. An exception that it throws ends the call like a
// failed allocation: between two kernels, before the op writes anything. Null if there is none.
extern std::atomic<void (*)()> interruption_check;

inline void check_interruption() {
  if (void (*const check)() = interruption_check.load(std::memory_order_relaxed);
      check != nullptr) {
    check();
  }
}

}  // namespace extensor::detail

EXTENSOR_END_API
