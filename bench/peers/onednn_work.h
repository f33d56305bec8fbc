// Declarations shared by the files of the oneDNN peer.
#pragma once

#include "task.h"

namespace extensor::bench {

// An empty Work for a task that is not a convolution.
Work onednn_convolution(const Task& task);

}  // namespace extensor::bench
