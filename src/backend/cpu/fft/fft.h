// The Fourier family of the CPU backend.
#pragma once

#include "backend/fft_call.h"

namespace extensor::cpu {

void fft(const backend::FftCall& call);

}  // namespace extensor::cpu
