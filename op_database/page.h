// Generates docs/ops.md from the database and the declarations in the public headers.
#pragma once

#include <string>

namespace extensor::op_database {

std::string reference_page();

}  // namespace extensor::op_database
