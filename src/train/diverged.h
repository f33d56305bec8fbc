// Diagnoses divergence: finds the values that are not finite.
#pragma once

#include <cstdint>

#include "extensor/data/dataset.h"
#include "extensor/train/model_reference.h"

namespace extensor::train {

// Throws DivergedError: the loss of this batch is not finite.
[[noreturn]] void throw_diverged(std::int64_t step, const ModelReference& model,
                                 const data::Batch& batch, double loss);

// Throws DivergedError: the norm of the gradients is not finite.
[[noreturn]] void throw_diverged(std::int64_t step, const ModelReference& model,
                                 double gradient_norm);

}  // namespace extensor::train
