// Attention and optimizer steps in PyTorch's C++ API.
#include "peers/torch_work.h"

namespace extensor::bench {

Work torch_attention([[maybe_unused]] const Task& task) { return {}; }

}  // namespace extensor::bench
