// The declarations that the op tables expand to in elementwise.h, as text.
#pragma once

#include <string>
#include <vector>

namespace extensor::op_database {

// The declarations of a row's function and its backward; empty for a name that is not a row.
std::vector<std::string> row_signatures(const std::string& name);

}  // namespace extensor::op_database
