// Losses, normalization and embedding in PyTorch's C++ API.
#include "peers/torch_work.h"

namespace extensor::bench {

Work torch_layers([[maybe_unused]] const Task& task) { return {}; }

}  // namespace extensor::bench
