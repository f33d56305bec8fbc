// Linear algebra of the peer OpenBLAS.
#pragma once

#include "task.h"

namespace extensor::bench {

// Empty for other tasks.
Work linalg_peer_work(const Task& task);

}  // namespace extensor::bench
