// Generates docs/ops.md from the database and the list of public functions.
#pragma once

#include <string>

namespace extensor::op_database {

std::string reference_page();

}  // namespace extensor::op_database
