// Stores the parts of a run in a checkpoint, each under its prefix.
#pragma once

#include <string>

#include "extensor/optim/state_dict.h"
#include "extensor/random.h"
#include "extensor/train/checkpoint.h"

namespace extensor::train {

void put(Checkpoint& checkpoint, const std::string& prefix, const optim::StateDict& state);
void put(Checkpoint& checkpoint, const std::string& prefix, const RandomState& state);

// Throws FormatError, prefixed with the label, for a missing entry.
double number(const std::string& label, const Checkpoint& checkpoint, const std::string& name);
RandomState random_state(const std::string& label, const Checkpoint& checkpoint,
                         const std::string& prefix);

NamedTensors tensors_of(const Checkpoint& checkpoint, const std::string& prefix);
optim::StateDict state_dict_of(const Checkpoint& checkpoint, const std::string& prefix);

}  // namespace extensor::train
