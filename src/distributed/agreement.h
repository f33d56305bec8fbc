// Finds out whether all ranks hold the same, and where they differ.
#pragma once

#include <string>
#include <vector>

#include "extensor/distributed/communicator.h"

namespace extensor::distributed {

// Compares a list of lines between all ranks. Throws DistributedError on every rank, with the first
// line that differs and the ranks that have it.
void check_agreement(const char* operation, Communicator& communicator,
                     const std::vector<std::string>& lines);

}  // namespace extensor::distributed
