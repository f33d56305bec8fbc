// Lets a program end a long call of the library between two kernels. The Python package raises
// KeyboardInterrupt this way.
#pragma once

#include <atomic>

#include "extensor/export.h"

EXTENSOR_BEGIN_API

namespace extensor::detail {

// The library calls this function, on whichever thread it works, before each op, before the
// backward of each recorded call, and several times a second while a DataLoader waits for a worker.
// An exception that it throws ends the call: no kernel is left half done, and what the op would
// have written is unchanged. Null if there is none.
extern std::atomic<void (*)()> interruption_check;

inline void check_interruption() {
  if (void (*const check)() = interruption_check.load(std::memory_order_relaxed);
      check != nullptr) {
    check();
  }
}

}  // namespace extensor::detail

EXTENSOR_END_API
