// Loads the available peer modules.
#pragma once

#include <vector>

#include "task.h"

namespace extensor::bench {

// In the order of the table's columns; missing peers are omitted, with the reason on stderr.
std::vector<Peer*> load_peers();

}  // namespace extensor::bench
