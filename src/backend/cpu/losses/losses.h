// The loss families of the CPU backend.
#pragma once

#include "backend/loss_call.h"

namespace extensor::cpu {

void loss(const backend::LossCall& call);
void class_loss(const backend::ClassLossCall& call);
void class_block(const backend::ClassBlockCall& call);

}  // namespace extensor::cpu
