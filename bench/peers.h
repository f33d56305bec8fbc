// Loads the peer modules.
#pragma once

#include <string>
#include <vector>

#include "task.h"

namespace extensor::bench {

// In the order of the table's columns.
std::vector<std::string> peer_names();

// Null if the name is not that of a peer. Throws std::runtime_error if its module is missing or
// does not load.
Peer* load_peer(const std::string& name, int threads);

}  // namespace extensor::bench
