// Calls of public functions as JSON, in the form that tests/pytorch writes: sample_inputs.py for
// the tests, and the benchmark of all ops (bench/ops).
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "extensor/extensor.h"
#include "support/call_by_name.h"

namespace extensor::test {

// The value of an expression:
//
//   {"call": "sum", "arguments": [{"tensor": "t0"}], "named": {"axes": 1}}   a call
//   {"part": 0, "of": {...}}                                                 one of its results
//   {"tensor": "t0"}, {"options": {...}}, {"number": "inf"}                  other arguments
//
// Null, booleans, numbers, strings and lists stand for themselves.
// Errors: those of call_by_name; std::out_of_range for a tensor or a part that does not exist.
Value evaluate(const nlohmann::json& expression, const std::map<std::string, Tensor>& tensors);

// Appends the tensors of a value to `all`, depth first; a bool becomes a tensor without axes.
void flatten(const Value& value, std::vector<Tensor>& all);

}  // namespace extensor::test
