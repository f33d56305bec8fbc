// The attention family of the CPU backend.
#pragma once

#include "backend/backend.h"

namespace extensor::cpu {

void attention(const backend::AttentionCall& call);
void attention_backward(const backend::AttentionBackwardCall& call);

}  // namespace extensor::cpu
