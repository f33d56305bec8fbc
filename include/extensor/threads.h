// The number of threads that the library uses.
#pragma once

#include "extensor/export.h"

EXTENSOR_BEGIN_API

namespace extensor {

// Sets the number of threads for the whole process: 1 to 1024, else ValueError. Results do not
// depend on it.
//
// The default is EXTENSOR_NUM_THREADS if it is set, else OMP_NUM_THREADS, else the number of
// processors that the process may use: its CPU affinity and the quotas of its control groups count.
void set_num_threads(int count);
int get_num_threads();

}  // namespace extensor

EXTENSOR_END_API
