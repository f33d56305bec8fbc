// Converts the expressions of the op tables to mathematical notation.
#pragma once

#include <string>

namespace extensor::op_database {

// "g * select(x >= 0, 1, exp(x))" → "g · (1 where x ≥ 0, else exp(x))".
std::string readable(const std::string& expression);

// The shortest text of the number: 0.01, −1.
std::string readable_number(double value);

}  // namespace extensor::op_database
