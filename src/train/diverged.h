// Why a run cannot go on: what is not finite, and where it is.
#pragma once

#include <cstdint>

#include "extensor/data/dataset.h"
#include "extensor/train/model_reference.h"

namespace extensor::train {

// The loss of this batch is not finite. DivergedError.
[[noreturn]] void throw_diverged(std::int64_t step, const ModelReference& model,
                                 const data::Batch& batch, double loss);

// The norm of the gradients is not. DivergedError.
[[noreturn]] void throw_diverged(std::int64_t step, const ModelReference& model,
                                 double gradient_norm);

}  // namespace extensor::train
