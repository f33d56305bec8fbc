#include "extensor/interruption.h"

namespace extensor::detail {

constinit std::atomic<void (*)()> interruption_check{nullptr};

}  // namespace extensor::detail
