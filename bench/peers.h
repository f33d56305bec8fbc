// Loads the peer modules that were built and that load.
#pragma once

#include <vector>

#include "task.h"

namespace extensor::bench {

// In the order of the table's columns; those that are missing are left out, and stderr says why.
std::vector<Peer*> load_peers();

}  // namespace extensor::bench
