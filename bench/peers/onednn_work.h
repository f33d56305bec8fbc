// What the files of the oneDNN peer share.
#pragma once

#include "task.h"

namespace extensor::bench {

// An empty Work for a task that is no convolution.
Work onednn_convolution(const Task& task);

}  // namespace extensor::bench
