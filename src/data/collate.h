// Makes batches of examples and checks the result of a user's function.
#pragma once

#include <span>
#include <vector>

#include "extensor/data/dataset.h"

namespace extensor::data {

// The batch of the examples with these indices. Examples that do not fit together are named by
// index. Throws ValueError if `collate` returns undefined tensors.
Batch collated(const char* operation, const Collate& collate, std::span<const Example> examples,
               std::vector<std::int64_t> indices);

}  // namespace extensor::data
