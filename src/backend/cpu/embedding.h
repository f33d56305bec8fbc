// The embedding family of the CPU backend.
#pragma once

#include "backend/embedding_call.h"

namespace extensor::cpu {

void embedding(const backend::EmbeddingCall& call);

}  // namespace extensor::cpu
