// The normalization families of the CPU backend.
#pragma once

#include "backend/backend.h"

namespace extensor::cpu {

void normalize_rows(const backend::RowNormalizationCall& call);
void normalize_batch(const backend::BatchNormalizationCall& call);

}  // namespace extensor::cpu
